//! Steps: how the ranks of one sequence take turns.
//!
//! Work is numbered in steps. A small call is one step, a large call one per chunk, a refused call
//! exactly one on every rank. Each rank owns two lines and two slots, by step parity.
//!
//! - **I1** What rank `q` put into step `s` is read only after an acquire load found the line of
//!   `q` at exactly `s` and, on the first step of a call, the calls agree.
//! - **I2** Step `s + 1` is published (release) only after the last read of step `s`.
//! - **I3** A line or slot of step `s` is written only after every rank was seen at `s - 1` or
//!   later. After a complete step that is known; after one left early it is waited for.
//! - **I4** Lengths and offsets come from a rank's own arguments, never from the segment.
//!
//! Two lines are enough: rank `p` writes its line of step `s + 2` after it saw `q` publish
//! `s + 1` (I3), which `q` does after its last read of step `s` (I2).
//!
//! A refusal takes no line. The rank notes the step it refused and goes on, without waiting; the
//! others find a rank that went past step `s` and whose line does not show `s`. That is proof: a
//! line of `s` can be overwritten only after all have published `s + 1`.

mod hold;
mod turn;

use comm_api::CommError;

use crate::board::Board;
use crate::call::{Call, Kind};
use crate::cause::{self, Cause, Reason};
use crate::report;
use crate::rule::{Rule, kept};
use crate::sync::{Mutex, Ordering, TryLockError};
use crate::wait::{self, Habit, Patience};

use hold::{Goal, Halt, Wait};
pub(crate) use turn::{Stage, Turn};

/// One rank's end of a sequence of steps.
#[derive(Debug)]
pub(crate) struct Sequence<B: Board> {
    board: B,
    rank: usize,
    patience: Patience,
    progress: Mutex<Progress>,
}

/// How far a rank is; its lock is held during a call, and only tried.
#[derive(Debug)]
struct Progress {
    /// The last step this rank published or refused.
    step: u64,
    /// Every rank was seen at this step or later.
    seen: u64,
    /// The first fatal error.
    failed: Option<CommError>,
    habit: Habit,
}

impl<B: Board> Sequence<B> {
    pub(crate) fn new(board: B, rank: usize, patience: Patience) -> Self {
        Self {
            board,
            rank,
            patience,
            progress: Mutex::new(Progress {
                step: 0,
                seen: 0,
                failed: None,
                habit: Habit::new(patience),
            }),
        }
    }

    pub(crate) fn board(&self) -> &B {
        &self.board
    }

    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn size(&self) -> usize {
        self.board.size()
    }

    pub(crate) fn patience(&self) -> Patience {
        self.patience
    }

    /// Begins a call: takes the next step, whose line and slot may be written from here on (I3).
    #[inline]
    pub(crate) fn begin(&self, kind: Kind, call: Call) -> Result<Turn<'_, B>, CommError> {
        let operation = kind.operation();
        let mut progress = match self.progress.try_lock() {
            Ok(progress) => progress,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(comm_kit::words::busy(operation, self.rank));
            }
        };
        if let Some(error) = &progress.failed {
            return Err(error.again(operation));
        }
        if let Some(cause) = cause::standing(&self.board) {
            return Err(self.give_up(&mut progress, operation, Goal::Lines, cause));
        }
        let step = progress.step + 1;
        if progress.seen < step - 1 && kept(Rule::Presence) {
            let wait = Wait {
                step: step - 1,
                goal: Goal::Presence,
                operation,
                first: false,
                midway: false,
            };
            if let Err(halt) = self.hold(0, wait, progress.habit) {
                return Err(self.halted(&mut progress, wait, halt));
            }
            progress.seen = step - 1;
        }
        progress.step = step;
        Ok(Turn::new(self, progress, operation, call))
    }

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
        crate::note::write(self.board.note(self.rank, step), step, text);
        crate::note::blame(self.refusal(step), step, self.rank);
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

    /// Ends the sequence for every rank, and gives the cause that stands.
    pub(crate) fn fail(&self, cause: Cause) -> Cause {
        let cause = cause.settle(&self.board.control().cause, self.size());
        self.announce();
        cause
    }

    pub(crate) fn announce(&self) {
        self.board.control().events.fetch_add(1, Ordering::Release);
        wait::ring_all(&self.board, self.rank);
    }

    /// Turns the end of a wait into an error; a fatal one is kept.
    #[cold]
    fn halted(&self, progress: &mut Progress, wait: Wait, halt: Halt) -> CommError {
        match halt {
            Halt::Refused(rank) => {
                let first = crate::note::blamed(self.refusal(wait.step), wait.step, self.size());
                let rank = first.unwrap_or(rank);
                let reason = crate::note::read(self.board.note(rank, wait.step), wait.step);
                report::refused(wait.operation, rank, reason)
            }
            Halt::Failed(cause) => self.give_up(progress, wait.operation, wait.goal, cause),
        }
    }

    #[cold]
    fn give_up(
        &self,
        progress: &mut Progress,
        operation: &'static str,
        goal: Goal,
        cause: Cause,
    ) -> CommError {
        let step = progress.step;
        let calls = self.calls(if goal == Goal::Lines { step } else { step + 1 });
        let error = report::failed(operation, cause, self.patience.timeout, calls);
        report::failure(self.rank, &error);
        progress.failed = Some(error.clone());
        error
    }
}
