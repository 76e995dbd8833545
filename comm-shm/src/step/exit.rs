//! The ways out of a step other than its completion: a refusal, a departure, a failure.

use comm_api::CommError;

use super::arrival::{Goal, Halt, Wait};
use super::{Progress, Sequence};
use crate::cause::{Cause, Reason};
use crate::layout::note_index;
use crate::sync::{AtomicU64, Ordering};
use crate::{note, report, wait};

impl Sequence {
    /// Takes one step by refusing it, without waiting for anybody.
    pub(crate) fn refuse(&self, text: &str) {
        let Ok(mut progress) = self.progress.try_lock() else {
            // Inside another call: nothing was taken from the sequence.
            return;
        };
        if progress.failed.is_some() {
            return;
        }
        progress.step += 1;
        let step = progress.step;
        note::write(self.board.note(self.rank, step), step, text);
        note::blame(self.refusal(step), step, self.rank);
        let standing = self.board.standing(self.rank);
        // Release: whoever sees the refusal sees the note, who was first, and every line before.
        standing.refused.store(step, Ordering::Release);
        self.announce();
    }

    /// Leaves the sequence; the others fail when they wait for a step this rank did not take.
    pub(crate) fn leave(&self, reason: Reason) {
        let standing = self.board.standing(self.rank);
        standing.left.store(reason.code().into(), Ordering::Release);
        self.announce();
    }

    /// Ends the sequence for every rank, and returns the cause that stands.
    pub(crate) fn fail(&self, cause: Cause) -> Cause {
        let cause = cause.record(&self.board.control().cause, self.size());
        self.announce();
        cause
    }

    /// Counts an event and wakes all ranks, which then look for it.
    pub(crate) fn announce(&self) {
        self.board.control().events.fetch_add(1, Ordering::Release);
        wait::ring_all(&self.board, self.rank);
    }

    /// Returns the word that names the rank that refused `step` first.
    fn refusal(&self, step: u64) -> &AtomicU64 {
        &self.board.control().refusals[note_index(step)]
    }

    /// Turns the end of a wait into an error; a fatal one is kept.
    #[cold]
    pub(super) fn halted(&self, progress: &mut Progress, wait: Wait, halt: Halt) -> CommError {
        match halt {
            Halt::Refused(rank) => {
                let first = note::blamed(self.refusal(wait.step), wait.step, self.size());
                let rank = first.unwrap_or(rank);
                let reason = note::read(self.board.note(rank, wait.step), wait.step);
                report::refused(wait.operation, rank, reason)
            }
            Halt::Failed(cause) => self.give_up(progress, wait.operation, wait.goal, cause),
        }
    }

    /// Fails the sequence because all lines are there and differ; every rank decides this alike.
    #[cold]
    pub(super) fn mismatched(&self, progress: &mut Progress, wait: Wait) -> CommError {
        let rank = self.disagreement(wait.step).unwrap_or(0);
        let cause = self.fail(Cause::mismatch(rank));
        self.give_up(progress, wait.operation, wait.goal, cause)
    }

    /// Keeps the error of `cause`, which every later call returns, and returns it.
    #[cold]
    pub(super) fn give_up(
        &self,
        progress: &mut Progress,
        operation: &'static str,
        goal: Goal,
        cause: Cause,
    ) -> CommError {
        let step = progress.step;
        let calls = self.calls(if goal == Goal::Lines { step } else { step + 1 });
        let error = report::failed(operation, cause, self.policy.timeout, calls);
        report::failure(self.rank, &error);
        progress.failed = Some(error.clone());
        error
    }
}
