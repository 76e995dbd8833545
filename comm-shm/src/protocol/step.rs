//! Steps: how the ranks of one sequence take turns.
//!
//! Work is numbered in steps. A small call is one step, a large call one per chunk, a refused call exactly
//! one on every rank. Each rank owns two lines and two slots, by step parity.
//!
//! - **I1** The contribution of rank `q` to step `s` is read only after an acquire load found the line of `q`
//!   at exactly `s` and, on the first step of a call, the calls agree.
//! - **I2** Step `s + 1` is published (release) only after the last read of step `s`.
//! - **I3** A line or slot of step `s` is written only after every rank was seen at `s - 1` or later. After a
//!   complete step that is known; after a step left early, the rank waits for it.
//! - **I4** Lengths and offsets come from a rank's own arguments, never from the segment.
//!
//! Two lines are enough: rank `p` writes its line of step `s + 2` after it saw `q` publish `s + 1` (I3),
//! which `q` does after its last read of step `s` (I2).
//!
//! A refusal takes no line. The rank notes the refused step and continues without waiting. The others find a
//! rank that is past step `s` and whose line does not show `s`. That is proof: a line of `s` can be
//! overwritten only after all ranks have published `s + 1`.

mod arrival;
pub(crate) mod exit;
pub(crate) mod lending;

use comm_api::{CommError, Operation};
use comm_kit::wait::Policy;
use comm_kit::{Call, Gate, Pass};

use crate::protocol::board::Board;
use crate::protocol::line::Line;
use crate::protocol::sync::{self, Ordering};
use crate::protocol::wait::{self, WaitPolicy};

use crate::protocol::route::Routes;
use arrival::{Goal, Halted, Wait};
use exit::Exit;

/// One rank's end of a sequence of steps.
#[derive(Debug)]
pub(crate) struct Sequence {
    gate: Gate<ShmTransport>,
}

/// What one rank needs to reach the others; everything they see of it goes through the board.
#[derive(Debug)]
pub(crate) struct ShmTransport {
    board: Board,
    rank: usize,
    policy: WaitPolicy,
}

/// The progress of a rank, which one call at a time changes.
#[derive(Debug)]
pub(crate) struct Progress {
    /// The last step that this rank published or refused.
    pub(in crate::protocol) step: u64,
    /// Every rank was seen at this step or later.
    pub(in crate::protocol) seen: u64,
    /// Whether ranks read each other's memory; the same on all of them.
    one_copy: bool,
    routes: Routes,
    /// How to wait, and what earlier waits have taught.
    awake: Policy,
    /// The event count at the last look that found nothing, neither for its step nor for a later one: while
    /// the count does not change, there is nothing to find.
    calm: Option<u32>,
}

impl Sequence {
    /// Creates the sequence of a region: its failures leave the communicator usable.
    pub(crate) fn of_region(board: Board, rank: usize, policy: WaitPolicy) -> Self {
        let Self { gate } = Self::new(board, rank, policy);
        Self {
            gate: gate.of_region(),
        }
    }

    pub(crate) fn new(board: Board, rank: usize, policy: WaitPolicy) -> Self {
        let transport = ShmTransport {
            board,
            rank,
            policy,
        };
        let progress = Progress {
            step: 0,
            seen: 0,
            one_copy: transport.board.copies_once(),
            routes: Routes::default(),
            awake: policy.awake,
            calm: None,
        };
        Self {
            gate: Gate::new(rank, transport, progress),
        }
    }

    /// Returns the gate, which admits calls and keeps the first cause.
    #[inline]
    pub(crate) fn gate(&self) -> &Gate<ShmTransport> {
        &self.gate
    }

    #[inline]
    pub(crate) fn board(&self) -> &Board {
        &self.gate.transport().board
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.gate.rank()
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.board().size()
    }

    pub(crate) fn policy(&self) -> WaitPolicy {
        self.gate.transport().policy
    }

    /// Begins a call: takes the next step, whose line and slot may be written from here on (I3).
    #[inline]
    #[track_caller]
    pub(crate) fn begin(&self, call: Call) -> Result<Turn<'_>, CommError> {
        let operation = call.operation();
        let mut pass = self.gate.enter(operation)?;
        let step = pass.step + 1;
        if let Some(cause) = self.board().cause() {
            let error = pass.transport().error(cause, operation, step);
            return Err(pass.fail(error));
        }
        if pass.seen < step - 1 {
            arrival::wait_for_presence(&mut pass, step - 1, operation)?;
        }
        pass.step = step;
        Ok(Turn {
            pass,
            operation,
            call,
            first: true,
            stage: Stage::Writing,
        })
    }
}

/// The stage of a rank within a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The rank's own line and slot may be written.
    Writing,
    /// Line and slot belong to the readers.
    Published,
    /// All lines and slots of the step may be read.
    Met,
    /// A rank refused the step: no rank ever sees it complete.
    Refused,
}

/// One rank's part in one call, from its first step to its last.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    pass: Pass<'a, ShmTransport>,
    operation: Operation,
    call: Call,
    /// Whether this is the first step of the call, whose lines carry the call itself.
    first: bool,
    stage: Stage,
}

impl<'a> Turn<'a> {
    #[inline]
    pub(crate) fn board(&self) -> &'a Board {
        &self.pass.transport().board
    }

    #[inline]
    pub(crate) fn rank(&self) -> usize {
        self.pass.rank()
    }

    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.board().size()
    }

    #[inline]
    pub(crate) fn stage(&self) -> Stage {
        self.stage
    }

    /// Returns the current step.
    #[inline]
    pub(crate) fn step(&self) -> u64 {
        self.pass.step
    }

    /// Returns this rank's line of the current step, to be written before
    /// [`publish`](Self::publish).
    #[inline]
    pub(crate) fn own_line(&self) -> &'a Line {
        self.line(self.rank())
    }

    /// Returns the line of `rank`, to be read after [`meet`](Self::meet).
    #[inline]
    pub(crate) fn line(&self, rank: usize) -> &'a Line {
        self.board().line(rank, self.step())
    }

    /// Returns the lines of all ranks, to be read after [`meet`](Self::meet).
    #[inline]
    pub(crate) fn lines(&self) -> &'a [Line] {
        self.board().lines(self.step())
    }

    /// Publishes what was written for this step.
    #[inline]
    pub(crate) fn publish(&mut self) {
        let line = self.own_line();
        if self.first {
            let words = self.call.words();
            line.call[0].store(words[0], Ordering::Relaxed);
            line.call[1].store(words[1], Ordering::Relaxed);
        }
        // Release: line, slot and region are written before (I1), and the reads of the last step are done
        // (I2).
        sync::publish(&line.step, self.step());
        self.stage = Stage::Published;
        wait::ring(self.board(), self.rank());
    }

    /// Waits until all ranks have published the last step of a call; on the first step, until their calls
    /// agree.
    #[inline]
    pub(crate) fn meet(&mut self) -> Result<(), CommError> {
        self.meet_before(false)
    }

    /// Waits like [`meet`](Self::meet). If the call has `more` steps to come, a dead rank counts as lost
    /// although it has published this one.
    #[inline]
    pub(crate) fn meet_before(&mut self, more: bool) -> Result<(), CommError> {
        let wait = Wait {
            step: self.step(),
            goal: Goal::Lines,
            operation: self.operation,
            first: self.first,
            more,
        };
        let (lines, own) = (self.lines(), self.rank());
        let mut rank = 0;
        let policy = &self.pass.transport().policy.awake;
        let mut looks = policy.eager_looks;
        while let Some(line) = lines.get(rank) {
            if rank == own || line.shows(wait.step) {
                rank += 1;
            } else if looks > 0 {
                looks -= 1;
                policy.between_looks();
            } else {
                self.wait_for_lines(rank, wait)?;
                break;
            }
        }
        if self.first {
            let own = self.call.words();
            if !lines.iter().all(|line| line.call_words() == own) {
                return Err(self.exit().mismatched());
            }
            self.first = false;
        }
        self.pass.seen = wait.step;
        self.stage = Stage::Met;
        Ok(())
    }

    /// Waits for the lines of all ranks from `rank` on.
    #[cold]
    fn wait_for_lines(&mut self, rank: usize, wait: Wait) -> Result<(), CommError> {
        arrival::wait_for_lines(&mut self.pass, rank, wait).map_err(|Halted { error, refused }| {
            if refused {
                self.stage = Stage::Refused;
            }
            error
        })
    }

    /// Returns the ways in which the call can end other than completion.
    pub(crate) fn exit(&mut self) -> Exit<'_, 'a> {
        Exit(self)
    }

    /// Returns whether large payloads are read from the memory of their owners; all ranks agree.
    #[inline]
    pub(crate) fn copies_once(&self) -> bool {
        self.pass.one_copy
    }

    /// Stops direct reading from here on: a rank could not read, and all ranks know.
    #[cold]
    pub(crate) fn copy_twice(&mut self) {
        self.pass.one_copy = false;
        let rank = self.rank();
        // The first and only such message of this communicator: after one failure, direct reading is not
        // tried again.
        tracing::info!(
            rank,
            "a rank could not read another one's memory; payloads are copied twice from here on"
        );
    }

    /// Returns what is known about the routes of payloads.
    pub(crate) fn routes(&mut self) -> &mut Routes {
        &mut self.pass.routes
    }

    /// Takes the next step of the same call; the last one was met, so it may be written (I3).
    #[inline]
    pub(crate) fn advance(&mut self) {
        assert!(
            self.stage == Stage::Met,
            "I3: not all ranks were seen at this step"
        );
        self.pass.step += 1;
        self.stage = Stage::Writing;
    }
}

impl Drop for Turn<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.stage == Stage::Writing {
            // Nothing was published: the step is not taken.
            self.pass.step -= 1;
        }
    }
}
