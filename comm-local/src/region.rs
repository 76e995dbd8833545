//! The region of a rank that shares its memory with nobody.

use comm_api::{CommData, CommError, SharedRegion};
use comm_kit::{Phases, memory};

/// Holds a region on the heap of one rank, which owns all of it.
///
/// Keeps the phases of every [`SharedRegion`]: what would race on shared memory panics here too.
#[derive(Debug)]
pub struct HeapRegion<T> {
    data: Vec<T>,
    phases: Phases,
}

impl<T: CommData> HeapRegion<T> {
    /// Allocates a zeroed region of `count` elements, in its write phase.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`] with the bytes needed and available if there is no room for it.
    pub fn new(count: usize) -> Result<Self, CommError> {
        Ok(Self {
            data: memory::zeroed_vec(count)?,
            phases: Phases::new(),
        })
    }
}

impl<T: CommData> SharedRegion<T> for HeapRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.phases.expect_read();
        &self.data
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.phases.expect_write();
        &mut self.data
    }

    fn fence(&mut self) -> Result<(), CommError> {
        let ended = self.phases.close();
        self.phases.open(ended);
        Ok(())
    }
}
