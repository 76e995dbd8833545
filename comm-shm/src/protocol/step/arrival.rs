//! Waiting for the other ranks, and what may happen instead of their arrival.
//!
//! A wait checks in this order: lines (a complete step succeeds, whatever happened after it), refusals, the
//! cause, departures, deaths.

use comm_api::{CommError, Operation};
use comm_kit::processors::give_way;
use comm_kit::wait::{Backoff, Pause, spin};
use comm_kit::words::{self, Lost};
use comm_kit::{Pass, interrupt};

use super::{Progress, ShmTransport};
use crate::protocol::cause::{Cause, Failure};
use crate::protocol::line::Line;
use crate::protocol::sync::{self, Ordering};
use crate::protocol::wait::{self, Vigil};

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

/// The goal of a wait, and the ranks it waits for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wait {
    pub(super) step: u64,
    pub(super) goal: Goal,
    pub(super) operation: Operation,
    /// Whether the step is the first of a call, so that the lines show the call itself.
    pub(super) first: bool,
    /// Whether the call has more steps, so that the lines of dead ranks do not suffice.
    pub(super) more: bool,
}

/// Waits until all ranks are at `step` or later (I3).
#[cold]
pub(super) fn wait_for_presence(
    pass: &mut Pass<'_, ShmTransport>,
    step: u64,
    operation: Operation,
) -> Result<(), CommError> {
    let wait = Wait {
        step,
        goal: Goal::Presence,
        operation,
        first: false,
        more: false,
    };
    let transport = pass.transport();
    match transport.wait_for_all(0, wait, pass) {
        Ok(()) => {
            pass.seen = step;
            Ok(())
        }
        Err(halt) => Err(pass.fail(transport.halted(wait, halt, step + 1))),
    }
}

/// How a call ends whose step is not completed.
pub(super) struct Halted {
    pub(super) error: CommError,
    /// Whether a rank refused the step: no rank ever sees it complete.
    pub(super) refused: bool,
}

/// Waits for the lines of all ranks from `rank` on.
#[cold]
pub(super) fn wait_for_lines(
    pass: &mut Pass<'_, ShmTransport>,
    rank: usize,
    wait: Wait,
) -> Result<(), Halted> {
    let transport = pass.transport();
    transport
        .wait_for_all(rank, wait, pass)
        .map_err(|halt| Halted {
            refused: matches!(halt, Halt::Refused(_)),
            error: pass.fail(transport.halted(wait, halt, wait.step)),
        })
}

impl ShmTransport {
    /// Checks whether `rank` has arrived where the wait needs it.
    #[inline]
    pub(super) fn has_arrived(&self, rank: usize, wait: Wait) -> bool {
        rank == self.rank
            || match wait.goal {
                Goal::Lines => self.board.line(rank, wait.step).shows(wait.step),
                Goal::Presence => self.latest(rank) >= wait.step,
            }
    }

    /// Checks whether the call needs more from `rank` than it has contributed. No rank is past an incomplete
    /// step, so a rank that ends in it cannot have contributed the rest: neither in a call of more steps, nor
    /// in the call after the step at which all ranks must be seen.
    fn is_needed(&self, rank: usize, wait: Wait) -> bool {
        match wait.goal {
            Goal::Lines => wait.more || !self.has_arrived(rank, wait),
            Goal::Presence => self.latest(rank) <= wait.step,
        }
    }

    /// Returns the last step that `rank` is known to have taken.
    fn latest(&self, rank: usize) -> u64 {
        let even = self.board.line(rank, 0).step.load(Ordering::Acquire);
        let odd = self.board.line(rank, 1).step.load(Ordering::Acquire);
        let refused = self.board.standing(rank).refused.load(Ordering::Acquire);
        even.max(odd).max(refused)
    }

    /// Returns the lowest rank from `rank` on whose line does not show `step`, or the number of ranks.
    #[inline]
    fn first_missing(&self, lines: &[Line], mut rank: usize, step: u64) -> usize {
        while let Some(line) = lines.get(rank)
            && (rank == self.rank || line.shows(step))
        {
            rank += 1;
        }
        rank
    }

    fn missing(&self, wait: Wait) -> impl Iterator<Item = usize> {
        (0..self.board.size()).filter(move |&rank| !self.has_arrived(rank, wait))
    }

    /// Waits for all ranks from `rank` on, by all available means, and learns how to wait for the next ones.
    #[inline(never)]
    fn wait_for_all(
        &self,
        mut rank: usize,
        wait: Wait,
        progress: &mut Progress,
    ) -> Result<(), Halt> {
        let control = self.board.control();
        let mut backoff = Backoff::new(progress.awake);
        let mut vigil = Vigil::new(self.policy);
        let mut events = progress.calm;
        let lines = self.board.lines(wait.step);
        loop {
            rank = match wait.goal {
                Goal::Lines => self.first_missing(lines, rank, wait.step),
                Goal::Presence => self.missing(wait).next().unwrap_or(lines.len()),
            };
            if rank == lines.len() {
                progress.awake = backoff.finish();
                return Ok(());
            }
            // Read before the state that it counts: a later event is seen in the next round.
            let count = control.events.load(Ordering::Acquire);
            if events.replace(count) != Some(count) {
                progress.calm = self.look(wait)?.then_some(count);
            }
            match backoff.pause() {
                Pause::Spin => spin(|| self.has_arrived(rank, wait)),
                Pause::Yield => give_way(),
                Pause::Sleep => {
                    let stay = || {
                        let calm = control.events.load(Ordering::Relaxed) == count;
                        calm && !self.has_arrived(rank, wait)
                    };
                    let time = vigil.sleep_time(&backoff);
                    wait::sleep(&self.board, self.rank, rank, time, stay);
                    backoff.slept(time);
                    self.look(wait)?;
                    let waited = backoff.waited();
                    if vigil.look.is_due(waited) {
                        self.look_for_the_dead(wait, |rank| self.board.is_dead(rank))?;
                    }
                    if interrupt::requested() {
                        self.interrupt(wait)?;
                    }
                    if vigil.report.is_due(waited) {
                        let missing: Vec<usize> = self.missing(wait).collect();
                        let missing = words::ranks(&missing);
                        words::log_waiting(wait.operation, self.rank, &missing, waited);
                    }
                    if vigil.is_over(&backoff) {
                        self.expire(wait)?;
                    }
                }
            }
        }
    }

    /// Checks for refusals, the cause, and ranks that left. Returns whether there is nothing for a later step
    /// either.
    fn look(&self, wait: Wait) -> Result<bool, Halt> {
        if wait.goal == Goal::Lines {
            let mut others = (0..self.board.size()).filter(|&rank| rank != self.rank);
            let refused = others.find(|&rank| {
                // In this order: a rank seen past the step has published its line or never will.
                self.latest(rank) >= wait.step && !self.has_arrived(rank, wait)
            });
            if let Some(rank) = refused {
                return Err(Halt::Refused(rank));
            }
        }
        if let Some(cause) = self.board.cause() {
            return self.unless_complete(wait, cause).map(|()| false);
        }
        let left = (0..self.board.size()).find_map(|rank| {
            let code = self.board.standing(rank).left.load(Ordering::Acquire);
            let lost = code != 0 && self.is_needed(rank, wait);
            let how = Lost::from_code(u8::try_from(code).unwrap_or(0));
            lost.then(|| Cause::lost(rank, how))
        });
        if let Some(cause) = left {
            self.unless_complete(wait, self.fail(cause))?;
        }
        Ok(sync::lasting(|| {
            (0..self.board.size()).all(|rank| {
                let standing = self.board.standing(rank);
                let left = standing.left.load(Ordering::Acquire);
                let refused = standing.refused.load(Ordering::Acquire);
                left == 0 && refused <= wait.step
            })
        }))
    }

    /// Checks whether the processes of the awaited ranks have ended.
    fn look_for_the_dead(
        &self,
        wait: Wait,
        mut is_dead: impl FnMut(usize) -> bool,
    ) -> Result<(), Halt> {
        let needed = |rank: usize| rank != self.rank && self.is_needed(rank, wait);
        let mut share = self.board.to_look_at();
        let Some(rank) = share.find(|&rank| needed(rank) && is_dead(rank)) else {
            return Ok(());
        };
        // The rank may have contributed, left or aborted before it died.
        self.look(wait)?;
        if !needed(rank) {
            return Ok(());
        }
        self.unless_complete(wait, self.fail(Cause::lost(rank, Lost::Ended)))
    }

    /// Fails because ranks that are alive have not arrived.
    fn expire(&self, wait: Wait) -> Result<(), Halt> {
        let missing: Vec<usize> = self.missing(wait).collect();
        let Some(&rank) = missing.first() else {
            return Ok(());
        };
        self.board.standing(self.rank).miss(&missing);
        let failure = Failure::Absent(u32::try_from(self.rank).unwrap_or(0));
        let visible = wait.first.then(|| self.disagreement(wait.step)).flatten();
        let cause = visible.map_or(Cause { rank, failure }, Cause::mismatch);
        self.unless_complete(wait, self.fail(cause))
    }

    /// Ends the sequence because the hook asked this rank to stop waiting.
    fn interrupt(&self, wait: Wait) -> Result<(), Halt> {
        if self.missing(wait).next().is_none() {
            return Ok(());
        }
        let (rank, failure) = (self.rank, Failure::Interrupted);
        self.unless_complete(wait, self.fail(Cause { rank, failure }))
    }

    /// Lets a complete step succeed, whatever happened after it.
    fn unless_complete(&self, wait: Wait, cause: Cause) -> Result<(), Halt> {
        if self.missing(wait).next().is_none() {
            Ok(())
        } else {
            Err(Halt::Failed(cause))
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
