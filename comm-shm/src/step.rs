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

mod arrival;
mod exit;
#[cfg(all(test, loom))]
mod models;

use comm_api::CommError;

use crate::board::Board;
use crate::call::{Call, Kind};
use crate::layout::Line;
use crate::sync::{Mutex, MutexGuard, Ordering, TryLockError};
use crate::wait::{self, SpinTime, WaitPolicy};

use arrival::{Goal, Wait};

/// One rank's end of a sequence of steps.
#[derive(Debug)]
pub(crate) struct Sequence {
    board: Board,
    rank: usize,
    policy: WaitPolicy,
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
    spin_time: SpinTime,
}

impl Sequence {
    pub(crate) fn new(board: Board, rank: usize, policy: WaitPolicy) -> Self {
        Self {
            board,
            rank,
            policy,
            progress: Mutex::new(Progress {
                step: 0,
                seen: 0,
                failed: None,
                spin_time: SpinTime::new(policy),
            }),
        }
    }

    #[inline]
    pub(crate) fn board(&self) -> &Board {
        &self.board
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.board.size()
    }

    pub(crate) fn policy(&self) -> WaitPolicy {
        self.policy
    }

    /// Begins a call: takes the next step, whose line and slot may be written from here on (I3).
    #[inline]
    pub(crate) fn begin(&self, kind: Kind, call: Call) -> Result<Turn<'_>, CommError> {
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
        if let Some(cause) = self.board.cause() {
            return Err(self.give_up(&mut progress, operation, Goal::Lines, cause));
        }
        let step = progress.step + 1;
        if progress.seen < step - 1 {
            self.wait_for_presence(&mut progress, step - 1, operation)?;
        }
        progress.step = step;
        Ok(Turn {
            sequence: self,
            progress,
            operation,
            call,
            first: true,
            stage: Stage::Writing,
        })
    }
}

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
pub(crate) struct Turn<'a> {
    sequence: &'a Sequence,
    progress: MutexGuard<'a, Progress>,
    operation: &'static str,
    call: Call,
    /// Whether this is the first step of the call, whose lines carry what was called.
    first: bool,
    stage: Stage,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn board(&self) -> &'a Board {
        &self.sequence.board
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
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the current step.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.progress.step
    }

    /// Returns this rank's line of the current step, to be written before
    /// [`publish`](Self::publish).
    #[inline]
    pub(crate) fn own_line(&self) -> &'a Line {
        self.line(self.sequence.rank)
    }

    /// Returns the line of `rank`, to be read after [`meet`](Self::meet).
    #[inline]
    pub(crate) fn line(&self, rank: usize) -> &'a Line {
        self.sequence.board.line(rank, self.step())
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
        line.step.store(self.step(), Ordering::Release);
        self.stage = Stage::Published;
        wait::ring(&self.sequence.board, self.sequence.rank);
    }

    /// Waits until all ranks have published the last step of a call; on the first one, until their
    /// calls agree.
    #[inline]
    pub(crate) fn meet(&mut self) -> Result<(), CommError> {
        self.meet_before(false)
    }

    /// Waits as [`meet`](Self::meet) does; if the call has `more` steps to come, a rank that died
    /// is lost although it has published this one.
    #[inline]
    pub(crate) fn meet_before(&mut self, more: bool) -> Result<(), CommError> {
        let sequence = self.sequence;
        let wait = Wait {
            step: self.step(),
            goal: Goal::Lines,
            operation: self.operation,
            first: self.first,
            more,
        };
        let mut rank = 0;
        let mut looks = sequence.policy.eager_looks;
        while rank < sequence.size() {
            if sequence.has_arrived(rank, wait) {
                rank += 1;
            } else if looks > 0 {
                looks -= 1;
                std::hint::spin_loop();
            } else {
                sequence.wait_for_lines(&mut self.progress, rank, wait)?;
                break;
            }
        }
        if self.first {
            let own = self.call.words();
            let agree = (0..sequence.size()).all(|rank| self.line(rank).call_words() == own);
            if !agree {
                return Err(sequence.mismatched(&mut self.progress, wait));
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
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.stage == Stage::Writing {
            // Nothing was published: the step is not taken.
            self.progress.step -= 1;
        }
    }
}
