//! Why a sequence failed: one word, written once.
//!
//! Whoever finds a death, a timeout, a mismatch or an abort tries to turn the word from 0 and
//! returns what it then reads. So all ranks name the same first cause, and a survivor that returns
//! and exits is never blamed.

use comm_api::FailureKind;

use crate::sync::{AtomicU64, Ordering};

/// Why a rank is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its process ended.
    Ended,
    /// It dropped its handle.
    Dropped,
    /// It dropped its handle while unwinding.
    Panicked,
}

impl Reason {
    /// Returns the reason of a handle that is being dropped.
    pub(crate) fn of_drop() -> Self {
        if std::thread::panicking() {
            Self::Panicked
        } else {
            Self::Dropped
        }
    }

    pub(crate) fn code(self) -> u32 {
        match self {
            Self::Ended => 1,
            Self::Dropped => 2,
            Self::Panicked => 3,
        }
    }

    pub(crate) fn from_code(code: u32) -> Self {
        match code {
            2 => Self::Dropped,
            3 => Self::Panicked,
            _ => Self::Ended,
        }
    }
}

/// Why a sequence failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    pub(crate) kind: FailureKind,
    /// The rank to blame.
    pub(crate) rank: usize,
    /// The [`Reason`] of a loss, the code of an abort, or which of the first 32 ranks were
    /// missing at a timeout.
    pub(crate) code: u32,
}

impl Cause {
    pub(crate) fn lost(rank: usize, reason: Reason) -> Self {
        Self {
            kind: FailureKind::PeerLost,
            rank,
            code: reason.code(),
        }
    }

    pub(crate) fn mismatch(rank: usize) -> Self {
        Self {
            kind: FailureKind::Mismatch,
            rank,
            code: 0,
        }
    }

    /// Packs the cause into a word that is not 0: kind, rank, code.
    fn word(self) -> u64 {
        let kind: u64 = match self.kind {
            FailureKind::PeerLost => 1,
            FailureKind::TimedOut => 2,
            FailureKind::Mismatch => 3,
            FailureKind::Aborted => 4,
            _ => 5,
        };
        kind << 56 | (self.rank as u64 & 0xff_ffff) << 32 | u64::from(self.code)
    }

    /// Unpacks a word; one that nobody writes is a failure too, of kind `Io`.
    pub(crate) fn from_word(word: u64, size: usize) -> Option<Self> {
        let kind = match word >> 56 {
            0 if word == 0 => return None,
            1 => FailureKind::PeerLost,
            2 => FailureKind::TimedOut,
            3 => FailureKind::Mismatch,
            4 => FailureKind::Aborted,
            _ => FailureKind::Io,
        };
        let rank = usize::try_from(word >> 32 & 0xff_ffff).unwrap_or(0);
        Some(Self {
            kind,
            rank: rank.min(size.saturating_sub(1)),
            code: u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0),
        })
    }

    /// Reads a cause word.
    pub(crate) fn load(word: &AtomicU64, size: usize) -> Option<Self> {
        Self::from_word(word.load(Ordering::Acquire), size)
    }

    /// Writes the cause unless there is one, and returns the one that stands then.
    pub(crate) fn record(self, word: &AtomicU64, size: usize) -> Self {
        let found = word.compare_exchange(0, self.word(), Ordering::AcqRel, Ordering::Acquire);
        match found {
            Ok(_) => self,
            Err(earlier) => Self::from_word(earlier, size).unwrap_or(self),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn first_cause_stands() {
        let word = AtomicU64::new(0);
        let lost = |rank| Cause {
            kind: FailureKind::PeerLost,
            rank,
            code: Reason::Ended.code(),
        };
        assert_eq!(Cause::load(&word, 4), None);
        assert_eq!(lost(2).record(&word, 4), lost(2));
        assert_eq!(lost(1).record(&word, 4), lost(2));
        assert_eq!(Cause::load(&word, 4), Some(lost(2)));
    }

    #[test]
    fn every_kind_survives_the_word() {
        for kind in [
            FailureKind::PeerLost,
            FailureKind::TimedOut,
            FailureKind::Mismatch,
            FailureKind::Aborted,
            FailureKind::Io,
        ] {
            let cause = Cause {
                kind,
                rank: 1023,
                code: u32::MAX,
            };
            assert_eq!(Cause::from_word(cause.word(), 1024), Some(cause));
        }
    }

    #[test]
    fn garbage_is_a_failure_within_the_ranks() {
        for word in [1, u64::MAX, 0xdead_beef_dead_beef, 9 << 56] {
            let cause = Cause::from_word(word, 3).expect("a failure");
            assert!(cause.rank < 3);
        }
    }
}
