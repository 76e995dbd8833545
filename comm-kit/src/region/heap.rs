//! The region of a rank that shares memory with no other rank.

use std::ops::Range;

use crate::memory;
use crate::region::gathered::{CommId, Origin, Parts};
use crate::region::phase::Phases;
use comm_api::{CommData, CommError, SharedRegion, bytemuck, check};

/// Holds a region on the heap of one rank.
///
/// Enforces the phases of every [`SharedRegion`]: code that would race on shared memory panics here too.
#[derive(Debug)]
pub struct HeapRegion<T> {
    data: Vec<T>,
    rank: usize,
    /// The elements that this rank owns: all of them, or its part of a gathered region.
    own: Range<usize>,
    /// What each rank owns of a gathered region.
    parts: Option<Parts>,
    phases: Phases,
}

impl<T: CommData> HeapRegion<T> {
    /// Allocates a zeroed region of `count` elements, in its write phase.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`] with the bytes needed and available if there is too little memory.
    pub fn new(count: usize) -> Result<Self, CommError> {
        Ok(Self {
            data: memory::zeroed_vec(count)?,
            rank: 0,
            own: 0..count,
            parts: None,
            phases: Phases::new(),
        })
    }

    /// Allocates the gathered region of a job of one rank, in its write phase.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn gathered_alone(count: usize, communicator: CommId) -> Result<Self, CommError> {
        let origin = Origin {
            communicator,
            number: 0,
        };
        Self::gathered(Parts::new(vec![count], size_of::<T>())?, 0, origin)
    }

    /// Allocates the copy of `rank` of a gathered region, in its write phase. This is what each rank creates
    /// in [`Parts::create_on_all`]; the number of its origin is the position of that call in the sequence.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn gathered(parts: Parts, rank: usize, origin: Origin) -> Result<Self, CommError> {
        Ok(Self {
            data: memory::zeroed_vec(parts.len())?,
            rank,
            own: parts.range(rank),
            parts: Some(parts),
            phases: Phases::gathered(origin),
        })
    }

    /// Checks that `communicator` can exchange the region, and returns its number.
    ///
    /// # Errors
    ///
    /// As [`Phases::check_exchange`].
    #[inline]
    pub fn check_exchange(&self, communicator: CommId, rank: usize) -> Result<u64, CommError> {
        self.phases.check_exchange(communicator, rank)
    }

    /// Ends the write phase with `gather`, which fills in the parts of the other ranks. `gather` gets the
    /// bytes of the whole region, with the part of this rank in its place. Call
    /// [`check_exchange`](Self::check_exchange) first.
    ///
    /// # Errors
    ///
    /// That of `gather`. A fatal error breaks the handle; after any other the phase continues.
    pub fn exchange(
        &mut self,
        gather: impl FnOnce(&mut [u8], &Parts) -> Result<(), CommError>,
    ) -> Result<(), CommError> {
        let (data, parts) = (&mut self.data, &self.parts);
        self.phases.exchange_alone(|| match parts {
            Some(parts) => gather(bytemuck::cast_slice_mut(data), parts),
            None => Ok(()),
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
        &mut self.data[self.own.clone()]
    }

    fn fence(&mut self) -> Result<(), CommError> {
        check::placed(self.phases.fence_alone(self.rank))
    }
}
