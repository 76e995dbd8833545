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

use comm_api::{CommError, FailureKind};

use crate::board::{Board, Line, slot_of};
use crate::call::{Call, Kind};
use crate::cause::{self, Cause, Reason};
use crate::report;
use crate::rule::{Rule, kept};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, TryLockError};
use crate::wait::{self, Patience, Pause, Vigil};

/// One rank's end of a sequence of steps.
#[derive(Debug)]
pub(crate) struct Sequence<B: Board> {
    board: B,
    rank: usize,
    patience: Patience,
    progress: Mutex<Progress>,
}

/// How far a rank is; its lock is held during a call, and only tried.
#[derive(Debug, Default)]
struct Progress {
    /// The last step this rank published or refused.
    step: u64,
    /// Every rank was seen at this step or later.
    seen: u64,
    /// The first fatal error.
    failed: Option<CommError>,
}

/// What a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Goal {
    /// All lines of the step.
    Lines,
    /// All ranks at the step or later.
    Presence,
}

/// Why a wait ended without its goal.
#[derive(Debug, Clone, Copy)]
enum Halt {
    Refused(usize),
    Failed(Cause),
}

impl<B: Board> Sequence<B> {
    pub(crate) fn new(board: B, rank: usize, patience: Patience) -> Self {
        Self {
            board,
            rank,
            patience,
            progress: Mutex::new(Progress::default()),
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
            Err(TryLockError::WouldBlock) => return Err(report::busy(operation, self.rank)),
        };
        if let Some(error) = &progress.failed {
            return Err(report::again(error, operation));
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
            };
            if let Err(halt) = self.hold(0, wait) {
                return Err(self.halted(&mut progress, wait, halt));
            }
            progress.seen = step - 1;
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

    /// Tells whether `rank` is where the wait needs it.
    #[inline]
    fn arrived(&self, rank: usize, wait: Wait) -> bool {
        rank == self.rank
            || match wait.goal {
                // Acquire: what the rank wrote before it published is read after this (I1).
                Goal::Lines => self.line(rank, wait.step).step.load(Ordering::Acquire) == wait.step,
                Goal::Presence => self.latest(rank) >= wait.step,
            }
    }

    /// The last step `rank` is known to have taken.
    fn latest(&self, rank: usize) -> u64 {
        let even = self.line(rank, 0).step.load(Ordering::Acquire);
        let odd = self.line(rank, 1).step.load(Ordering::Acquire);
        let refused = self.board.standing(rank).refused.load(Ordering::Acquire);
        even.max(odd).max(refused)
    }

    #[inline]
    fn line(&self, rank: usize, step: u64) -> &Line {
        self.board.line(rank, step)
    }

    fn refusal(&self, step: u64) -> &AtomicU64 {
        &self.board.control().refusals[slot_of(step)]
    }

    fn missing(&self, wait: Wait) -> impl Iterator<Item = usize> {
        (0..self.size()).filter(move |&rank| !self.arrived(rank, wait))
    }

    /// Waits for all ranks from `from` on, by every means there is.
    #[cold]
    #[inline(never)]
    fn hold(&self, from: usize, wait: Wait) -> Result<(), Halt> {
        let control = self.board.control();
        let mut vigil = Vigil::new(self.patience);
        let mut events = None;
        let mut rank = from;
        loop {
            while self.arrived(rank, wait) {
                rank += 1;
                if rank == self.size() {
                    return Ok(());
                }
            }
            // Before the look at what it counts: a later event is seen in the next round.
            let count = control.events.load(Ordering::Acquire);
            if events.replace(count) != Some(count) {
                self.look(wait)?;
            }
            match vigil.pause() {
                Pause::Spin => wait::spin(|| self.arrived(rank, wait)),
                Pause::Yield => std::thread::yield_now(),
                Pause::Sleep => {
                    let stay = || {
                        let calm = control.events.load(Ordering::Relaxed) == count;
                        calm && !self.arrived(rank, wait)
                    };
                    wait::sleep(&self.board, self.rank, rank, vigil.nap(), stay);
                    self.look(wait)?;
                    self.look_for_the_dead(wait)?;
                    if let Some(time) = vigil.slow() {
                        let missing: Vec<usize> = self.missing(wait).collect();
                        report::slow(wait.operation, self.rank, &missing, time);
                    }
                    if vigil.expired() {
                        self.expire(wait)?;
                    }
                }
            }
        }
    }

    /// Looks for refusals, the cause, and ranks that left.
    fn look(&self, wait: Wait) -> Result<(), Halt> {
        if wait.goal == Goal::Lines {
            let mut others = (0..self.size()).filter(|&rank| rank != self.rank);
            let refused = others.find(|&rank| {
                // In this order: a rank seen past the step has published its line or never will.
                self.latest(rank) >= wait.step && !self.arrived(rank, wait)
            });
            if let Some(rank) = refused {
                return Err(Halt::Refused(rank));
            }
        }
        if let Some(cause) = cause::standing(&self.board) {
            return self.unless_complete(wait, cause);
        }
        let left = (0..self.size()).find_map(|rank| {
            let code = self.board.standing(rank).left.load(Ordering::Acquire);
            let lost = code != 0 && !self.arrived(rank, wait);
            lost.then(|| lost_by(rank, Reason::from_code(u32::try_from(code).unwrap_or(0))))
        });
        match left {
            Some(cause) => self.unless_complete(wait, self.fail(cause)),
            None => Ok(()),
        }
    }

    /// Looks whether the processes of the missing ranks have ended.
    fn look_for_the_dead(&self, wait: Wait) -> Result<(), Halt> {
        let dead = self.missing(wait).find(|&rank| self.board.dead(rank));
        let Some(rank) = dead else {
            return Ok(());
        };
        // It may have contributed, left or aborted before it died.
        self.look(wait)?;
        if self.arrived(rank, wait) {
            return Ok(());
        }
        self.unless_complete(wait, self.fail(lost_by(rank, Reason::Ended)))
    }

    /// Gives up on ranks that are alive and do not come.
    fn expire(&self, wait: Wait) -> Result<(), Halt> {
        let missing: Vec<usize> = self.missing(wait).collect();
        let Some(&rank) = missing.first() else {
            return Ok(());
        };
        let code = missing
            .iter()
            .filter(|&&rank| rank < 32)
            .fold(0, |set, &rank| set | 1 << rank);
        let timed_out = Cause {
            kind: FailureKind::TimedOut,
            rank,
            code,
        };
        let visible = wait.first.then(|| self.disagreement(wait.step)).flatten();
        let cause = visible.map_or(timed_out, mismatch);
        self.unless_complete(wait, self.fail(cause))
    }

    /// Lets a step that is complete succeed, whatever happened after it.
    fn unless_complete(&self, wait: Wait, cause: Cause) -> Result<(), Halt> {
        if self.missing(wait).next().is_none() {
            Ok(())
        } else {
            Err(Halt::Failed(cause))
        }
    }

    /// Gives the lowest rank whose call differs from that of the lowest rank that came.
    fn disagreement(&self, step: u64) -> Option<usize> {
        let mut calls = self.calls(step);
        let (_, first) = calls.next()?;
        calls.find(|&(_, call)| call != first).map(|(rank, _)| rank)
    }

    /// What the ranks that came to `step` called.
    fn calls(&self, step: u64) -> impl Iterator<Item = (usize, Call)> {
        (0..self.size()).filter_map(move |rank| {
            let line = self.line(rank, step);
            let came = line.step.load(Ordering::Acquire) == step;
            came.then(|| (rank, Call::found(words(line))))
        })
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

    /// Waits until all ranks have published the step; on the first one, until their calls agree.
    #[inline]
    pub(crate) fn meet(&mut self) -> Result<(), CommError> {
        let sequence = self.sequence;
        let wait = Wait {
            step: self.step(),
            goal: Goal::Lines,
            operation: self.operation,
            first: self.first,
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
                if let Err(halt) = sequence.hold(rank, wait) {
                    return Err(sequence.halted(&mut self.progress, wait, halt));
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

/// What is waited for, and for whom.
#[derive(Debug, Clone, Copy)]
struct Wait {
    step: u64,
    goal: Goal,
    operation: &'static str,
    /// Whether the step begins a call, so that the lines tell what was called.
    first: bool,
}

#[inline]
fn words(line: &Line) -> [u64; 2] {
    [
        line.call[0].load(Ordering::Relaxed),
        line.call[1].load(Ordering::Relaxed),
    ]
}

fn lost_by(rank: usize, reason: Reason) -> Cause {
    Cause {
        kind: FailureKind::PeerLost,
        rank,
        code: reason.code(),
    }
}

fn mismatch(rank: usize) -> Cause {
    Cause {
        kind: FailureKind::Mismatch,
        rank,
        code: 0,
    }
}
