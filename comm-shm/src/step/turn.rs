//! One rank's part in one call.

use comm_api::CommError;

use super::hold::{Goal, Wait, mismatch, words};
use super::{Progress, Sequence};
use crate::board::{Board, Line};
use crate::call::Call;
use crate::rule::{Rule, kept};
use crate::sync::{MutexGuard, Ordering};
use crate::wait;

/// Where a rank is within a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Its own line and slot may be written.
    Writing,
    /// They belong to the readers.
    Published,
    /// All lines and slots of the step may be read.
    Met,
}

/// One rank's part in one call, from its first step to its last.
#[derive(Debug)]
pub(crate) struct Turn<'a, B: Board> {
    sequence: &'a Sequence<B>,
    progress: MutexGuard<'a, Progress>,
    operation: &'static str,
    call: Call,
    first: bool,
    stage: Stage,
}

impl<'a, B: Board> Turn<'a, B> {
    pub(super) fn new(
        sequence: &'a Sequence<B>,
        progress: MutexGuard<'a, Progress>,
        operation: &'static str,
        call: Call,
    ) -> Self {
        Self {
            sequence,
            progress,
            operation,
            call,
            first: true,
            stage: Stage::Writing,
        }
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.sequence.rank
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.sequence.size()
    }

    #[inline]
    pub(crate) fn board(&self) -> &'a B {
        &self.sequence.board
    }

    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// The current step.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.progress.step
    }

    /// This rank's line of the current step, to be written before [`publish`](Self::publish).
    #[inline]
    pub(crate) fn own_line(&self) -> &'a Line {
        self.sequence.line(self.sequence.rank, self.step())
    }

    /// The line of another rank, to be read after [`meet`](Self::meet).
    #[inline]
    pub(crate) fn line(&self, rank: usize) -> &'a Line {
        self.sequence.line(rank, self.step())
    }

    /// Shows the others what was written for this step.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let line = self.own_line();
        if self.first {
            let words = self.call.words();
            line.call[0].store(words[0], Ordering::Relaxed);
            line.call[1].store(words[1], Ordering::Relaxed);
        }
        // Release: line, slot and region are written before (I1), reads of the last step done (I2).
        let release = if kept(Rule::Release) {
            Ordering::Release
        } else {
            Ordering::Relaxed
        };
        line.step.store(self.step(), release);
        self.stage = Stage::Published;
        wait::ring(&self.sequence.board, self.sequence.rank);
    }

    /// Waits until all ranks have published the last step of a call; on the first one, until their
    /// calls agree.
    #[inline]
    pub(crate) fn meet(&mut self) -> Result<(), CommError> {
        self.meet_before(false)
    }

    /// Waits as [`meet`](Self::meet) does; with `more` steps of the call to come, a rank that died
    /// is lost although it has published this one.
    #[inline]
    pub(crate) fn meet_before(&mut self, more: bool) -> Result<(), CommError> {
        let sequence = self.sequence;
        let wait = Wait {
            step: self.step(),
            goal: Goal::Lines,
            operation: self.operation,
            first: self.first,
            midway: more,
        };
        let mut rank = 0;
        let mut looks = sequence.patience.eager;
        while rank < sequence.size() {
            if sequence.arrived(rank, wait) {
                rank += 1;
            } else if looks > 0 {
                looks -= 1;
                std::hint::spin_loop();
            } else {
                let progress = &mut *self.progress;
                match sequence.hold(rank, wait, progress.habit) {
                    Ok(last) => progress.habit.learn(sequence.patience, last),
                    Err(halt) => return Err(sequence.halted(progress, wait, halt)),
                }
                break;
            }
        }
        if self.first {
            let own = self.call.words();
            let agree = (0..sequence.size()).all(|rank| words(self.line(rank)) == own);
            if !agree {
                return Err(self.mismatched(wait));
            }
            self.first = false;
        }
        self.progress.seen = wait.step;
        self.stage = Stage::Met;
        Ok(())
    }

    /// Takes the next step of the same call; the last one was met, so it may be written (I3).
    #[inline]
    pub(crate) fn advance(&mut self) {
        assert!(
            self.stage == Stage::Met,
            "I3: not all ranks were seen at this step"
        );
        self.progress.step += 1;
        self.stage = Stage::Writing;
    }

    /// All lines are there and differ: every rank decides this, and alike.
    #[cold]
    fn mismatched(&mut self, wait: Wait) -> CommError {
        let rank = self.sequence.disagreement(wait.step).unwrap_or(0);
        let cause = self.sequence.fail(mismatch(rank));
        self.sequence
            .give_up(&mut self.progress, self.operation, wait.goal, cause)
    }
}

impl<B: Board> Drop for Turn<'_, B> {
    fn drop(&mut self) {
        if self.stage == Stage::Writing {
            // Nothing was published: the step is not taken.
            self.progress.step -= 1;
        }
    }
}
