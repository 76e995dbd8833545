//! The region of a rank that shares its memory with nobody.

use comm_api::{CommData, CommError, SharedRegion};

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
    /// [`CommError::AllocationFailed`] if there is no memory for it.
    pub fn new(count: usize) -> Result<Self, CommError> {
        let mut data = Vec::new();
        data.try_reserve_exact(count)
            .map_err(|reason| CommError::AllocationFailed {
                requested_bytes: count.saturating_mul(size_of::<T>()),
                message: format!(
                    "a region of {count} elements on the heap of this rank: {reason}; \
                     make it smaller, or give the process more memory"
                ),
            })?;
        data.resize(count, T::zeroed());
        Ok(Self {
            data,
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
