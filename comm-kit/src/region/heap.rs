//! The region of a rank that shares its memory with nobody.

use std::ops::Range;

use crate::memory;
use crate::region::gathered::{CommId, Origin, Parts};
use crate::region::phase::Phases;
use comm_api::{CommData, CommError, SharedRegion, bytemuck};

/// Holds a region on the heap of one rank.
///
/// Keeps the phases of every [`SharedRegion`]: what would race on shared memory panics here too.
#[derive(Debug)]
pub struct HeapRegion<T> {
    data: Vec<T>,
    rank: usize,
    /// What this rank owns: everything, but of a gathered region its part.
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
    /// [`CommError::AllocationFailed`] with the bytes needed and available if there is no room for it.
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

    /// Allocates the copy of `rank` of a gathered region, in its write phase: what each rank creates of
    /// [`Parts::create_on_all`], with the place of that call in the sequence as the number of its origin.
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

    /// Checks that `communicator` can exchange the region; returns its number.
    ///
    /// # Errors
    ///
    /// As [`Phases::check_exchange`].
    #[inline]
    pub fn check_exchange(&self, communicator: CommId, rank: usize) -> Result<u64, CommError> {
        self.phases.check_exchange(communicator, rank)
    }

    /// Ends the write phase with `gather`, which fills in the parts of the other ranks: it gets the bytes of the whole region,
    /// in which the part of this rank is in its place.
    /// After [`check_exchange`](Self::check_exchange).
    ///
    /// # Errors
    ///
    /// That of `gather`: if it is fatal the handle is broken, else the phase goes on.
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
        self.phases.fence_alone(self.rank)
    }
}
