//! Lines: what a rank puts into a step.

use crate::protocol::sync::{AtomicU64, Ordering};

/// What one rank puts into one step; a single cache line, so a small call costs one transfer per rank.
///
/// A rank has two lines, by step parity, and is the only one that writes them.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// The step that this line belongs to; stored last, with release.
    pub(crate) step: AtomicU64,
    /// The call, see [`Call`](comm_kit::Call).
    pub(crate) call: [AtomicU64; 2],
    /// A payload of up to [`INLINE`] bytes.
    inline: [AtomicU64; INLINE_WORDS],
}

/// The payload bytes of a line.
pub(crate) const INLINE: usize = 8 * INLINE_WORDS;

const INLINE_WORDS: usize = 5;

impl Line {
    /// Checks whether the rank has published `step`.
    #[inline]
    pub(crate) fn shows(&self, step: u64) -> bool {
        // Acquire: what the rank wrote before it published is read after this (I1).
        self.step.load(Ordering::Acquire) == step
    }

    /// Reads the call.
    #[inline]
    pub(crate) fn call_words(&self) -> [u64; 2] {
        [
            self.call[0].load(Ordering::Relaxed),
            self.call[1].load(Ordering::Relaxed),
        ]
    }

    /// Writes numbers as the payload.
    #[inline]
    pub(crate) fn put_words<const N: usize>(&self, words: [u64; N]) {
        const { assert!(N <= INLINE_WORDS, "a line holds less") };
        for (place, word) in self.inline.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
    }

    /// Reads the payload as numbers.
    #[inline]
    pub(crate) fn words<const N: usize>(&self) -> [u64; N] {
        const { assert!(N <= INLINE_WORDS, "a line holds less") };
        std::array::from_fn(|at| self.inline[at].load(Ordering::Relaxed))
    }

    /// Writes a payload of up to [`INLINE`] bytes.
    #[inline]
    pub(crate) fn put(&self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for (place, &word) in self.inline.iter().zip(words) {
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        if let (Some(place), false) = (self.inline.get(words.len()), rest.is_empty()) {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            place.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
    }

    /// Reads a payload of up to [`INLINE`] bytes.
    #[inline]
    pub(crate) fn take(&self, bytes: &mut [u8]) {
        let (words, rest) = bytes.as_chunks_mut();
        for (place, word) in self.inline.iter().zip(&mut *words) {
            *word = place.load(Ordering::Relaxed).to_ne_bytes();
        }
        if let (Some(place), false) = (self.inline.get(words.len()), rest.is_empty()) {
            let word = place.load(Ordering::Relaxed).to_ne_bytes();
            rest.copy_from_slice(&word[..rest.len()]);
        }
    }
}
