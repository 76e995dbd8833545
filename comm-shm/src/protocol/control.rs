//! What ranks write beside their lines: the cause, events, bells, and standings.

use crate::config::MOST_RANKS;
use crate::protocol::note::NOTES;
use crate::protocol::sync::{AtomicU32, AtomicU64, Futex, Ordering};

/// The shared state that all ranks of a sequence write, rarely.
#[repr(C, align(128))]
#[derive(Debug, Default)]
pub(crate) struct Control {
    /// Why the sequence failed: 0, or the first [`Cause`](crate::protocol::cause::Cause).
    pub(crate) cause: AtomicU64,
    /// Counts refusals, departures and causes: as long as it does not change, there are no new ones.
    pub(crate) events: AtomicU32,
    /// How many ranks sleep or are about to.
    pub(crate) sleepers: AtomicU32,
    /// The next rank that a waiting rank checks, see [`round`](crate::liveness::round).
    pub(crate) turn: AtomicU32,
    /// How many ranks have released the range in which this lies.
    pub(crate) released: AtomicU32,
    /// Once all ranks have: the range that was released before.
    pub(crate) below: AtomicU64,
    /// The first rank that refused a step, see [`blame`](crate::protocol::note::blame).
    pub(crate) refusals: [AtomicU64; NOTES],
}

/// The word a rank sleeps on: 0 awake, `p + 1` asleep until rank `p` publishes.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Bell {
    pub(crate) word: Futex,
}

/// What a rank did outside of its lines.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub(crate) struct Standing {
    /// The last step this rank refused.
    pub(crate) refused: AtomicU64,
    /// Why this rank left, see [`Lost`](comm_kit::words::Lost); 0 as long as it has not.
    pub(crate) left: AtomicU64,
    /// The ranks that were missing when this rank's timeout expired, one bit each; written before the cause
    /// that names this rank as its witness.
    pub(crate) missed: [AtomicU64; MISSED_WORDS],
}

impl Standing {
    /// Records the missing ranks.
    pub(crate) fn miss(&self, ranks: &[usize]) {
        for (index, word) in self.missed.iter().enumerate() {
            let bits = ranks.iter().filter(|&&rank| rank / 64 == index);
            let bits = bits.fold(0, |bits, rank| bits | 1 << (rank % 64));
            word.store(bits, Ordering::Relaxed);
        }
    }

    /// Returns the missing ranks, of `size` ranks.
    pub(crate) fn missed(&self, size: usize) -> Vec<usize> {
        let bit = |rank: usize| {
            let word = self.missed.get(rank / 64);
            word.is_some_and(|word| word.load(Ordering::Relaxed) >> (rank % 64) & 1 == 1)
        };
        (0..size).filter(|&rank| bit(rank)).collect()
    }
}

/// One bit for each possible rank.
const MISSED_WORDS: usize = if cfg!(loom) {
    1
} else {
    MOST_RANKS.div_ceil(64)
};
