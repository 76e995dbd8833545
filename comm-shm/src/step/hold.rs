//! Waiting for the other ranks, and what may happen instead of their coming.
//!
//! The order of looking is: lines (a complete step succeeds, whatever happened after it), refusals,
//! cause, departures, deaths.

use comm_api::FailureKind;

use super::Sequence;
use crate::board::{Board, Line, slot_of};
use crate::call::Call;
use crate::cause::{self, Cause, Reason};
use crate::report;
use crate::sync::{AtomicU64, Ordering};
use crate::wait::{self, Habit, Pause, Vigil};

/// What a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// All lines of the step.
    Lines,
    /// All ranks at the step or later.
    Presence,
}

/// Why a wait ended without its goal.
#[derive(Debug, Clone, Copy)]
pub(super) enum Halt {
    Refused(usize),
    Failed(Cause),
}

/// What is waited for, and for whom.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) step: u64,
    pub(super) goal: Goal,
    pub(super) operation: &'static str,
    /// Whether the step begins a call, so that the lines tell what was called.
    pub(super) first: bool,
    /// Whether the call goes on after the step, so that it takes more than the lines of the dead.
    pub(super) midway: bool,
}

#[inline]
pub(super) fn words(line: &Line) -> [u64; 2] {
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

pub(super) fn mismatch(rank: usize) -> Cause {
    Cause {
        kind: FailureKind::Mismatch,
        rank,
        code: 0,
    }
}

impl<B: Board> Sequence<B> {
    /// Tells whether `rank` is where the wait needs it.
    #[inline]
    pub(super) fn arrived(&self, rank: usize, wait: Wait) -> bool {
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
    pub(super) fn line(&self, rank: usize, step: u64) -> &Line {
        self.board.line(rank, step)
    }

    pub(super) fn refusal(&self, step: u64) -> &AtomicU64 {
        &self.board.control().refusals[slot_of(step)]
    }

    fn missing(&self, wait: Wait) -> impl Iterator<Item = usize> {
        (0..self.size()).filter(move |&rank| !self.arrived(rank, wait))
    }

    /// Waits for all ranks from `from` on, by every means there is; tells by which they came.
    #[cold]
    #[inline(never)]
    pub(super) fn hold(&self, from: usize, wait: Wait, habit: Habit) -> Result<Pause, Halt> {
        let control = self.board.control();
        let mut vigil = Vigil::new(self.patience, habit);
        let mut last = Pause::Spin;
        let mut events = None;
        let mut rank = from;
        loop {
            while self.arrived(rank, wait) {
                rank += 1;
                if rank == self.size() {
                    return Ok(last);
                }
            }
            // Before the look at what it counts: a later event is seen in the next round.
            let count = control.events.load(Ordering::Acquire);
            if events.replace(count) != Some(count) {
                self.look(wait)?;
            }
            last = vigil.pause();
            match last {
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

    /// Looks whether the processes of the missing ranks have ended; midway, of all of them: nobody
    /// is past a step that is not complete, so whoever died in it cannot have contributed the rest.
    fn look_for_the_dead(&self, wait: Wait) -> Result<(), Halt> {
        let needed = |&rank: &usize| wait.midway || !self.arrived(rank, wait);
        let mut ranks = (0..self.size()).filter(needed);
        let Some(rank) = ranks.find(|&rank| self.board.dead(rank)) else {
            return Ok(());
        };
        // It may have contributed, left or aborted before it died.
        self.look(wait)?;
        if !needed(&rank) {
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
    pub(super) fn disagreement(&self, step: u64) -> Option<usize> {
        let mut calls = self.calls(step);
        let (_, first) = calls.next()?;
        calls.find(|&(_, call)| call != first).map(|(rank, _)| rank)
    }

    /// What the ranks that came to `step` called.
    pub(super) fn calls(&self, step: u64) -> impl Iterator<Item = (usize, Call)> {
        (0..self.size()).filter_map(move |rank| {
            let line = self.line(rank, step);
            let came = line.step.load(Ordering::Acquire) == step;
            came.then(|| (rank, Call::found(words(line))))
        })
    }
}
