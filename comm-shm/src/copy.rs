//! Copies between a rank's buffers and memory that is shared.
//!
//! # Invariants
//!
//! - **K1** Source and destination are valid for `len` bytes and do not overlap; the caller says
//!   so.
//! - **K2** Stores that go around the caches are fenced before the function returns: what follows
//!   may publish them.
#![expect(
    unsafe_code,
    reason = "shared memory is never borrowed as a slice, so it is copied by pointer"
)]

/// Whether the copy is read again soon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is: leave it in the caches.
    Cached,
    /// It is not: write around the caches, which saves reading the destination first.
    Streamed,
}

/// Below this the head and tail of a streamed copy cost more than it saves.
const STREAM_FROM: usize = 4096;

/// Copies `len` bytes.
///
/// # Safety
///
/// K1: `from` is valid for reads and `to` for writes of `len` bytes, and the two do not overlap.
/// No other thread or process writes either while this runs.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize, keep: Keep) {
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

    const LINE: usize = 64;
    let head = to.align_offset(LINE).min(len);
    // SAFETY: K1, `head <= len`.
    unsafe { std::ptr::copy_nonoverlapping(from, to, head) };
    let mut at = head;
    while len - at >= LINE {
        // SAFETY: K1, `at < len`.
        let source = unsafe { from.add(at) };
        // SAFETY: K1, `at < len`.
        let target = unsafe { to.add(at) };
        for part in (0..LINE).step_by(size_of::<__m128i>()) {
            // SAFETY: K1, the 16 bytes end at or before `at + LINE <= len`.
            let source = unsafe { source.add(part) };
            // SAFETY: K1, the 16 bytes end at or before `at + LINE <= len`.
            let target = unsafe { target.add(part) };
            // SAFETY: K1; this load needs no alignment.
            let value = unsafe { _mm_loadu_si128(source.cast()) };
            // SAFETY: K1; `to + head` is a multiple of 64, and `at + part - head` one of 16.
            unsafe { _mm_stream_si128(target.cast(), value) };
        }
        at += LINE;
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

/// Never called: [`copy`] streams on `x86_64` alone.
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
