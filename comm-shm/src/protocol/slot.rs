//! Slots: payloads that are too large for a line.
//!
//! # Invariants
//!
//! - **S1** Between the beginning of a step and its publication, only this rank accesses its slot of that
//!   step: the others read it after they saw it published (I1), and the readers of its contents two steps ago
//!   have published since (I2, I3). A [`Turn`] in [`Stage::Writing`] proves that this is such a time, and is
//!   borrowed mutably.
//! - **S2** Between the meeting of a step and the next step, no rank writes any slot of that step (I3: it
//!   would first have to see this rank publish the next step). A [`Turn`] in [`Stage::Met`] proves that this
//!   is such a time.
//! - **S3** A slot is as long as the board's layout states; `Mapping::range` checks that it is mapped, and
//!   the functions here check that the copied range lies within the slot.
//! - **S4** A process that violates the protocol can corrupt the data that is read, never its length.
//! - **K1** The arguments of [`copy`] are valid for `len` bytes and do not overlap; its callers check that.
//! - **K2** Stores that go around the caches are fenced before [`copy`] returns, so the caller may publish
//!   them.
#![expect(
    unsafe_code,
    reason = "slots are never borrowed as slices, so they are copied by pointer"
)]

use crate::protocol::step::{Stage, Turn};

/// This rank's slot of a step that the rank has not published yet (S1).
pub(crate) struct OwnSlot<'t, 'a>(&'t mut Turn<'a>);

impl<'t, 'a> OwnSlot<'t, 'a> {
    /// Takes the slot of the current step.
    ///
    /// # Panics
    ///
    /// If the step was already published.
    #[inline]
    pub(crate) fn of(turn: &'t mut Turn<'a>) -> Self {
        assert!(
            turn.stage() == Stage::Writing,
            "S1: others may read the slot"
        );
        Self(turn)
    }

    /// Writes `bytes` into the slot, from `at` on.
    ///
    /// # Panics
    ///
    /// If `bytes` do not fit.
    #[inline]
    pub(crate) fn put(&mut self, at: usize, bytes: &[u8]) {
        let to = within(self.0, self.0.rank(), at, bytes.len());
        // SAFETY: S1, no other rank accesses the slot; S3, `within` checked the range; a borrowed slice of
        // this process cannot overlap memory that is never borrowed.
        unsafe { copy(bytes.as_ptr(), to, bytes.len(), Keep::Cached) }
    }
}

/// The slots of all ranks in a step that was met (S2).
#[derive(Clone, Copy)]
pub(crate) struct MetSlots<'t, 'a>(&'t Turn<'a>);

impl<'t, 'a> MetSlots<'t, 'a> {
    /// Takes the slots of the current step.
    ///
    /// # Panics
    ///
    /// If the step was not met.
    #[inline]
    pub(crate) fn of(turn: &'t Turn<'a>) -> Self {
        assert!(
            turn.stage() == Stage::Met,
            "S2: the slot may still be written"
        );
        Self(turn)
    }

    /// Reads the slot of `rank`, from `at` on.
    ///
    /// # Panics
    ///
    /// If `into` exceeds the rest of the slot.
    #[inline]
    pub(crate) fn take(self, rank: usize, at: usize, into: &mut [u8], keep: Keep) {
        let from = within(self.0, rank, at, into.len());
        // SAFETY: S2, no rank writes the slot; S3, `within` checked the range; a mutably borrowed slice of
        // this process cannot overlap memory that is never borrowed.
        unsafe { copy(from, into.as_mut_ptr(), into.len(), keep) }
    }
}

/// Returns the address of `len` bytes, `at` bytes into the slot of `rank` (S3).
#[inline]
fn within(turn: &Turn<'_>, rank: usize, at: usize, len: usize) -> *mut u8 {
    let start = turn.board().slot(rank, turn.step());
    let slot_bytes = turn.board().slot_bytes();
    let inside = at <= slot_bytes && len <= slot_bytes - at;
    assert!(
        inside,
        "{len} bytes at {at} are outside of a slot of {slot_bytes}"
    );
    turn.board().map().range(start + at, len).as_ptr()
}

/// Copies within this process, as [`MetSlots::take`] does from a slot.
pub(crate) fn copy_slice(from: &[u8], into: &mut [u8], keep: Keep) {
    assert_eq!(from.len(), into.len());
    // SAFETY: both slices have this length, and one of them is borrowed mutably, so they are
    // distinct.
    unsafe { copy(from.as_ptr(), into.as_mut_ptr(), into.len(), keep) }
}

/// Whether the copy is read again soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The copy is read again soon: leave it in the caches.
    Cached,
    /// The copy is not read again soon: write around the caches, which saves reading the destination first.
    Streamed,
}

/// Below this length, the head and tail of a streamed copy cost more than streaming saves.
const STREAM_FROM: usize = 4096;

/// Copies `len` bytes.
///
/// # Safety
///
/// K1: `from` is valid for reads and `to` for writes of `len` bytes, and the two do not overlap.
/// No other thread or process writes either while this runs.
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, len: usize, keep: Keep) {
    if keep == Keep::Streamed && len >= STREAM_FROM && cfg!(target_arch = "x86_64") {
        // SAFETY: K1, passed on.
        unsafe { streamed(from, to, len) }
    } else {
        // SAFETY: K1, passed on.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
    }
}

/// Copies with stores that go around the caches.
///
/// # Safety
///
/// K1, as [`copy`].
#[cfg(target_arch = "x86_64")]
unsafe fn streamed(from: *const u8, to: *mut u8, len: usize) {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_sfence, _mm_stream_si128};

    const CACHE_LINE: usize = 64;
    let head = to.align_offset(CACHE_LINE).min(len);
    // SAFETY: K1, `head <= len`.
    unsafe { std::ptr::copy_nonoverlapping(from, to, head) };
    let mut at = head;
    while len - at >= CACHE_LINE {
        // SAFETY: K1, `at < len`.
        let source = unsafe { from.add(at) };
        // SAFETY: K1, `at < len`.
        let target = unsafe { to.add(at) };
        for part in (0..CACHE_LINE).step_by(size_of::<__m128i>()) {
            // SAFETY: K1, the 16 bytes end at or before `at + CACHE_LINE <= len`.
            let source = unsafe { source.add(part) };
            // SAFETY: K1, the 16 bytes end at or before `at + CACHE_LINE <= len`.
            let target = unsafe { target.add(part) };
            // SAFETY: K1; this load needs no alignment.
            let value = unsafe { _mm_loadu_si128(source.cast()) };
            // SAFETY: K1; `to + head` is a multiple of 64, and `at + part - head` one of 16.
            unsafe { _mm_stream_si128(target.cast(), value) };
        }
        at += CACHE_LINE;
    }
    // SAFETY: K2; the instruction is part of every processor of this architecture.
    unsafe { _mm_sfence() };
    // SAFETY: K1, `at <= len`.
    let source = unsafe { from.add(at) };
    // SAFETY: K1, `at <= len`.
    let target = unsafe { to.add(at) };
    // SAFETY: K1, `at + (len - at)` is `len`.
    unsafe { std::ptr::copy_nonoverlapping(source, target, len - at) };
}

/// Never called: [`copy`] streams on `x86_64` only.
///
/// # Safety
///
/// K1, as [`copy`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn streamed(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: K1, passed on.
    unsafe { std::ptr::copy_nonoverlapping(from, to, len) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length() {
        let from: Vec<u8> = (0..20_000_u32).map(|i| (i * 7 % 251) as u8).collect();
        for keep in [Keep::Cached, Keep::Streamed] {
            for (shift, len) in (0..70).flat_map(|shift| [(shift, 4096 + shift), (shift, 9001)]) {
                let mut to = vec![0; 10_000];
                // SAFETY: K1, both vectors are longer than `shift + len` and are distinct.
                unsafe { copy(from[3..].as_ptr(), to[shift..].as_mut_ptr(), len, keep) };
                assert_eq!(
                    to[shift..shift + len],
                    from[3..3 + len],
                    "{keep:?} {shift} {len}"
                );
                assert!(to[shift + len..].iter().all(|&byte| byte == 0));
                assert!(to[..shift].iter().all(|&byte| byte == 0));
            }
        }
    }
}
