//! What the main thread of rank 0 and the watch tell each other without a message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Marks that a cause was decided.
const DECIDED: u64 = 1 << 63;

/// Shared by the main thread of rank 0 and the watch.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The first sequence that rank 0 has not answered, and [`DECIDED`]. One word for both, so that of
    /// an answer and a cause one is first, and the other knows.
    state: AtomicU64,
    /// The first call that rank 0 is not through with.
    pub(crate) passed: AtomicU64,
    /// Rank 0 leaves, and waits for nobody.
    pub(crate) leaving: AtomicBool,
    /// A cause was decided and has been sent to all.
    pub(crate) announced: AtomicBool,
    /// So the log says.
    pub(crate) logged: AtomicBool,
}

/// Orders the answers of rank 0 and the decision of the judge: of the two, one comes first, and the other knows.
pub(crate) trait CommitWord {
    /// Commits rank 0 to answer call `sequence`, having seen all enter it; returns whether it may. Once a
    /// cause was decided it may not: others act on that already.
    #[must_use]
    fn answer(&self, sequence: u64) -> bool;

    /// Notes that answers to call `sequence` that were not sent yet do not come any more.
    fn take_back(&self, sequence: u64);

    /// Notes that a cause was decided; returns the first sequence that rank 0 has not answered and
    /// will not.
    fn decide(&self) -> u64;
}

impl CommitWord for Signals {
    #[inline]
    fn answer(&self, sequence: u64) -> bool {
        let answer = |state: u64| (state & DECIDED == 0).then_some(sequence + 1);
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, answer)
            .is_ok()
    }

    fn take_back(&self, sequence: u64) {
        let take_back = |state: u64| (state & DECIDED == 0).then(|| state.min(sequence));
        // With a cause decided it has been said which answers come.
        let _ = self
            .state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, take_back);
    }

    fn decide(&self) -> u64 {
        self.state.fetch_or(DECIDED, Ordering::AcqRel) & !DECIDED
    }
}

impl<W: CommitWord> CommitWord for Arc<W> {
    fn answer(&self, sequence: u64) -> bool {
        (**self).answer(sequence)
    }

    fn take_back(&self, sequence: u64) {
        (**self).take_back(sequence);
    }

    fn decide(&self) -> u64 {
        (**self).decide()
    }
}

#[cfg(test)]
impl Signals {
    /// Returns the first sequence that rank 0 has not answered.
    pub(crate) fn answered(&self) -> u64 {
        self.state.load(Ordering::Acquire) & !DECIDED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_an_answer_and_a_cause_the_first_counts() {
        let signals = Signals::default();
        assert!(signals.answer(0));
        assert!(signals.answer(1));
        signals.take_back(1);
        assert_eq!(signals.decide(), 1);
        assert!(!signals.answer(1));
        signals.take_back(0);
        assert_eq!(signals.answered(), 1);
    }
}
