//! The region of a rank that shares its memory with nobody.

use comm_api::{CommData, CommError, SharedRegion, memory};

/// Holds a region on the heap of one rank, which owns all of it.
///
/// Keeps the phases of every [`SharedRegion`]: what would race on shared memory panics here too.
#[derive(Debug)]
pub struct HeapRegion<T> {
    data: Vec<T>,
    phase: Phase,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Write,
    Read,
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
            phase: Phase::Write,
        })
    }
}

impl<T: CommData> SharedRegion<T> for HeapRegion<T> {
    fn as_slice(&self) -> &[T] {
        assert!(
            self.phase == Phase::Read,
            "as_slice: the region is in its write phase; call fence() to end it, then read"
        );
        &self.data
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        assert!(
            self.phase == Phase::Write,
            "as_mut_slice: the region is in its read phase; call fence() to end it, then write"
        );
        &mut self.data
    }

    fn fence(&mut self) -> Result<(), CommError> {
        self.phase = match self.phase {
            Phase::Write => Phase::Read,
            Phase::Read => Phase::Write,
        };
        Ok(())
    }
}
