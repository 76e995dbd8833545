//! Why a sequence failed: one word, written once.
//!
//! A rank that finds a death, a timeout, a mismatch or an abort tries to change the word from 0, and returns
//! what it reads afterwards. So all ranks report the same first cause, and a survivor that returns and exits
//! is never blamed.

use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};
use comm_kit::Call;
use comm_kit::words::{self, Lost};

use crate::config::TIMEOUT;
use crate::protocol::sync::{AtomicU64, Ordering};

/// Why a sequence failed, and through which rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cause {
    /// The rank to blame.
    pub(crate) rank: usize,
    pub(crate) failure: Failure,
}

/// What the blamed rank did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was lost.
    Lost(Lost),
    /// It did not enter the call; the rank that waited in vain has recorded which others did not.
    Absent(u32),
    /// It called something else; at start-up, with that many ranks.
    Differs(u32),
    /// It called `abort` with that code.
    Aborted(i32),
    /// It was interrupted while it waited.
    Interrupted,
    /// It could not attach, at start-up.
    Unattached,
    /// Unknown: no rank writes such a word.
    Unknown,
}

impl Cause {
    pub(crate) const fn lost(rank: usize, lost: Lost) -> Self {
        let failure = Failure::Lost(lost);
        Self { rank, failure }
    }

    pub(crate) const fn mismatch(rank: usize) -> Self {
        let failure = Failure::Differs(0);
        Self { rank, failure }
    }

    /// Packs the cause into a word that is not 0: failure, rank, detail.
    fn word(self) -> u64 {
        let (failure, detail): (u64, u32) = match self.failure {
            Failure::Lost(lost) => (1, lost.code().into()),
            Failure::Absent(witness) => (2, witness),
            Failure::Differs(size) => (3, size),
            Failure::Aborted(code) => (4, code.cast_unsigned()),
            Failure::Interrupted => (5, 0),
            Failure::Unknown => (6, 0),
            Failure::Unattached => (7, 0),
        };
        failure << 56 | (self.rank as u64 & 0xff_ffff) << 32 | u64::from(detail)
    }

    /// Unpacks a word, unless it is 0; a word that no rank writes is a failure too.
    #[inline]
    pub(crate) fn from_word(word: u64, size: usize) -> Option<Self> {
        (word != 0).then(|| Self::unpack(word, size))
    }

    #[cold]
    fn unpack(word: u64, size: usize) -> Self {
        let detail = u32::try_from(word & u64::from(u32::MAX)).unwrap_or(0);
        let failure = match word >> 56 {
            1 => Failure::Lost(Lost::from_code(u8::try_from(detail).unwrap_or(0))),
            2 => Failure::Absent(detail),
            3 => Failure::Differs(detail),
            4 => Failure::Aborted(detail.cast_signed()),
            5 => Failure::Interrupted,
            7 => Failure::Unattached,
            _ => Failure::Unknown,
        };
        let rank = usize::try_from(word >> 32 & 0xff_ffff).unwrap_or(0);
        Self {
            rank: rank.min(size.saturating_sub(1)),
            failure,
        }
    }

    /// Reads a cause word.
    #[inline]
    pub(crate) fn load(word: &AtomicU64, size: usize) -> Option<Self> {
        Self::from_word(word.load(Ordering::Acquire), size)
    }

    /// Writes the cause unless there already is one, and returns the cause that is stored then.
    pub(crate) fn record(self, word: &AtomicU64, size: usize) -> Self {
        let found = word.compare_exchange(0, self.word(), Ordering::AcqRel, Ordering::Acquire);
        match found {
            Ok(_) => self,
            Err(earlier) => Self::from_word(earlier, size).unwrap_or(self),
        }
    }

    /// Returns the error of this cause. `missed` returns the ranks that a rank has recorded as missing, and
    /// `calls` are the calls of the ranks in the step that failed.
    pub(crate) fn error(
        self,
        operation: Operation,
        timeout: Option<Duration>,
        missed: impl FnOnce(usize) -> Vec<usize>,
        calls: impl Iterator<Item = (usize, Call)>,
    ) -> CommError {
        let Self { rank, failure } = self;
        let (kind, message) = match failure {
            Failure::Lost(lost) => (FailureKind::PeerLost, words::lost(lost, None)),
            Failure::Absent(witness) => {
                let mut missing = missed(usize::try_from(witness).unwrap_or(0));
                if !missing.contains(&rank) {
                    missing = vec![rank];
                }
                let message = words::absent(&words::ranks(&missing), timeout, TIMEOUT);
                (FailureKind::TimedOut, message)
            }
            Failure::Differs(_) => {
                let message = words::differing(calls).map_or_else(
                    || "its arguments do not agree with those of rank 0".to_owned(),
                    |(_, message)| message,
                );
                (FailureKind::Mismatch, message)
            }
            Failure::Aborted(code) => (FailureKind::Aborted, words::aborted(code)),
            Failure::Interrupted => (FailureKind::Aborted, words::interrupted()),
            Failure::Unattached | Failure::Unknown => {
                let message = "the shared segment is corrupted; restart the job";
                (FailureKind::Io, message.to_owned())
            }
        };
        CommError::failed(operation, kind, Some(rank), message)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_cause_stands() {
        let word = AtomicU64::new(0);
        let lost = |rank| Cause::lost(rank, Lost::Ended);
        assert_eq!(Cause::load(&word, 4), None);
        assert_eq!(lost(2).record(&word, 4), lost(2));
        assert_eq!(lost(1).record(&word, 4), lost(2));
        assert_eq!(Cause::load(&word, 4), Some(lost(2)));
    }

    #[test]
    fn every_failure_survives_the_word() {
        for failure in [
            Failure::Lost(Lost::Ended),
            Failure::Lost(Lost::PanickedInside),
            Failure::Absent(u32::MAX),
            Failure::Differs(7),
            Failure::Aborted(-1),
            Failure::Interrupted,
            Failure::Unattached,
            Failure::Unknown,
        ] {
            let cause = Cause {
                rank: 1023,
                failure,
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
