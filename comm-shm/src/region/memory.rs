//! The elements of a region, borrowed only when no access can race.
//!
//! # Invariants
//!
//! - **R1** The ranks of a region are all in the same phase, or on their way from one to the next. A phase
//!   ends with [`Memory::close`], which takes `&mut self`, so that nothing of it is borrowed any longer. The
//!   next phase begins with [`Memory::open_after`], which takes the proof that all ranks have met since.
//!   Release and acquire of that meeting order the accesses. Ranks meet in the region's own steps, or, to
//!   exchange a gathered region, in a step of its communicator, in which all ranks have compared, exactly,
//!   that they mean this region. A step that a rank refused is complete for no rank, so the phase continues
//!   for all ([`Memory::resume`]).
//! - **R2** In a write phase a rank accesses only its own part, through `&mut self`. The parts of two ranks
//!   are disjoint: they are consecutive, from the same list on every rank.
//! - **R3** In a read phase no rank writes.
//! - **R4** `len * size_of::<T>()` bytes are mapped and reserved, aligned for `T`, and initially zero: a
//!   reused range was returned to the system in between. `T` is plain old data, so any content is a value.
//! - **R5** An exchange on a node has two steps. When the first is met, all ranks have closed their write
//!   phase; they open the next phase when the second is met, which takes the line of rank 0.
#![expect(unsafe_code, reason = "the bytes of a region are borrowed as elements")]

use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use comm_api::{CommData, CommError};
use comm_kit::{CommId, Ended, Phases};

use crate::protocol::step::{Stage, Turn};
use crate::segment::mapping::Mapping;

/// The elements of a region, and the part that this rank owns.
#[derive(Debug)]
pub(super) struct Memory<T> {
    map: Arc<Mapping>,
    /// Where in the mapping the elements begin.
    at: usize,
    len: usize,
    own: Range<usize>,
    phases: Phases,
    elements: PhantomData<T>,
}

impl<T: CommData> Memory<T> {
    /// Takes the `len` elements that begin `at` bytes into a mapping, zeroed, in their write phase.
    ///
    /// # Panics
    ///
    /// If the part is not inside, or the memory is too short or misaligned (R4).
    pub(super) fn new(
        map: Arc<Mapping>,
        at: usize,
        len: usize,
        own: Range<usize>,
        phases: Phases,
    ) -> Self {
        assert!(own.start <= own.end && own.end <= len, "R2");
        let memory = Self {
            map,
            at,
            len,
            own,
            phases,
            elements: PhantomData,
        };
        assert!(memory.start().is_aligned(), "R4");
        memory
    }

    #[track_caller]
    pub(super) fn as_slice(&self) -> &[T] {
        self.phases.expect_read();
        // SAFETY: R4, `len` elements from `start` on are mapped as long as `self` lives; R1 and R3, no rank
        // writes them before this borrow has ended and this rank has closed the phase.
        unsafe { NonNull::slice_from_raw_parts(self.start(), self.len).as_ref() }
    }

    #[track_caller]
    pub(super) fn as_mut_slice(&mut self) -> &mut [T] {
        self.phases.expect_write();
        // SAFETY: R2, `own.start <= len`, so this stays within the elements or one past their end.
        let start = unsafe { self.start().add(self.own.start) };
        let mut part = NonNull::slice_from_raw_parts(start, self.own.len());
        // SAFETY: R4 and R2, the part is mapped and no other rank accesses it; `&mut self`, so no other
        // thread of this rank does; R1, no rank reads before this phase is closed.
        unsafe { part.as_mut() }
    }

    /// Checks that a fence can end the phase, on `rank`.
    pub(super) fn check_fence(&self, rank: usize) -> Result<(), CommError> {
        self.phases.check_fence(rank)
    }

    /// Checks that `communicator` can end the phase with an exchange, on `rank`.
    #[inline]
    pub(super) fn check_exchange(
        &self,
        communicator: CommId,
        rank: usize,
    ) -> Result<u64, CommError> {
        self.phases.check_exchange(communicator, rank)
    }

    /// Ends the phase on this rank; nothing is borrowed any longer.
    #[inline]
    pub(super) fn close(&mut self) -> Ended {
        self.phases.close()
    }

    /// Begins the phase after `ended`; all ranks have met since it was closed (R1).
    #[inline]
    pub(super) fn open_after(&mut self, ended: Ended, met: &Turn<'_>) {
        assert!(met.stage() == Stage::Met, "R1");
        self.phases.open(ended);
    }

    /// Resumes the phase that was closed, because a rank refused the step that would have ended it (R1).
    pub(super) fn resume(&mut self, ended: Ended, refused: &Turn<'_>) {
        assert!(refused.stage() == Stage::Refused, "R1");
        self.phases.resume(ended);
    }

    /// Breaks the handle permanently.
    pub(super) fn fail(&mut self, cause: &CommError) {
        self.phases.fail(cause);
    }

    /// Lends all elements to rank 0, between the two steps of an exchange on a node (R5).
    pub(super) fn lend<R>(
        &mut self,
        ended: &Ended,
        first: &Turn<'_>,
        borrow: impl FnOnce(&mut [T]) -> R,
    ) -> R {
        let is_first = first.stage() == Stage::Met && first.rank() == 0;
        assert!(is_first && ended.was_write(), "R5");
        let mut whole = NonNull::slice_from_raw_parts(self.start(), self.len);
        // SAFETY: R4, `len` elements are mapped; R5, no other rank accesses any of them before this rank
        // takes the second step, for which it needs `first`; `&mut self`, so no other thread of this rank
        // does.
        borrow(unsafe { whole.as_mut() })
    }

    fn start(&self) -> NonNull<T> {
        self.map.range(self.at, self.len * size_of::<T>()).cast()
    }
}
