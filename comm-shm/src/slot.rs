//! Slots: payloads that are too large for a line.
//!
//! # Invariants
//!
//! - **S1** Between the beginning of a step and its publication, this rank alone touches its slot
//!   of that step: the others read it after they saw it published (I1), and those that read what
//!   was in it two steps ago have published since (I2, I3). A [`Turn`] in
//!   [`Stage::Writing`] is the proof that this is such a time, and is borrowed mutably.
//! - **S2** Between the meeting of a step and the next step, nobody writes any slot of that step
//!   (I3: to do so it must see this rank publish the next one). A [`Turn`] in [`Stage::Met`] is
//!   the proof that this is such a time.
//! - **S3** A slot is as long as the board's plan says, `Mapping::range` checks that it is mapped,
//!   and the functions here that what is copied lies within the slot.
//! - **S4** A process that breaks the protocol can make what is read garbage, never its length.
#![expect(
    unsafe_code,
    reason = "slots are never borrowed as slices, so they are copied by pointer"
)]

use crate::copy::{Keep, copy};
use crate::mapped::Mapped;
use crate::step::{Stage, Turn};

impl Turn<'_, Mapped> {
    /// The bytes a slot takes.
    pub(crate) fn slot_bytes(&self) -> usize {
        self.board().slot(0, 0).1
    }

    /// Writes `bytes` into this rank's slot, from `at` on, before the step is published.
    ///
    /// # Panics
    ///
    /// If they do not fit, or the step was published.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        assert!(
            self.stage() == Stage::Writing,
            "S1: the slot is not this rank's alone"
        );
        let to = self.within(self.rank(), at, bytes.len());
        // SAFETY: S1, nobody else touches the slot; S3, `within` checked the range; a borrowed
        // slice of this process cannot overlap memory that is never borrowed.
        unsafe { copy(bytes.as_ptr(), to, bytes.len(), Keep::Cached) }
    }

    /// Reads the slot of `rank`, from `at` on, after the step was met.
    ///
    /// # Panics
    ///
    /// If `into` is longer than what is left of the slot, or the step was not met.
    #[inline]
    pub(crate) fn take(&self, rank: usize, at: usize, into: &mut [u8], keep: Keep) {
        assert!(
            self.stage() == Stage::Met,
            "S2: the slot may still be written"
        );
        let from = self.within(rank, at, into.len());
        // SAFETY: S2, nobody writes the slot; S3, `within` checked the range; a mutably borrowed
        // slice of this process cannot overlap memory that is never borrowed.
        unsafe { copy(from, into.as_mut_ptr(), into.len(), keep) }
    }

    /// Gives the address of `len` bytes, `at` bytes into the slot of `rank` (S3).
    #[inline]
    fn within(&self, rank: usize, at: usize, len: usize) -> *mut u8 {
        let (start, slot) = self.board().slot(rank, self.step());
        let inside = at <= slot && len <= slot - at;
        assert!(
            inside,
            "{len} bytes at {at} are outside of a slot of {slot}"
        );
        self.board().map().range(start + at, len).as_ptr()
    }
}

/// Copies within this process, as [`Turn::take`] does from a slot.
pub(crate) fn copy_slice(from: &[u8], into: &mut [u8], keep: Keep) {
    assert_eq!(from.len(), into.len());
    // SAFETY: both slices have this length, and one of them is borrowed mutably, so they are
    // distinct.
    unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len(), keep) }
}
