//! How a job is ended: keeps the first cause, asks the ranks to end, then kills them.
//!
//! ```text
//! Running --a rank fails--> Reporting --500 ms--> Asked --500 ms--> Killed --5 s--> given up
//!    \                                            ^ SIGTERM         ^ SIGKILL
//!     \--deadline, stop, output lost-------------/                 /
//!      \--a second Ctrl-C----------------------------------------/
//! ```
//!
//! A stop asks with its own signal, and the ranks have as long as its [`Grace`] allows. While a rank that others name as the
//! cause is still writing its last lines, the reporting phase takes up to 5 s.
//!
//! Pure: takes the time as an argument and returns the signals to send.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::supervise::signals::Signal;
use crate::verdict::outcome::Ending;

/// How long the other ranks may take to notice and report a failure before they are asked to end.
pub(crate) const REPORT: Duration = Duration::from_millis(500);
/// How long a rank that is asked to end may take.
pub(super) const ASK: Duration = Duration::from_millis(500);
/// How long a rank that the others have lost may take to end by itself: printing a backtrace takes time.
pub(super) const LAST_WORDS: Duration = Duration::from_secs(5);
/// How long a killed rank may take to disappear: the kernel needs time to free much memory.
pub(super) const KILL: Duration = Duration::from_secs(5);

/// How long the output may take after the ranks of a stopped or timed-out job are gone: the user is waiting for the end.
pub(super) const HURRIED: Duration = Duration::from_secs(1);
/// The same for a job that failed: a slow reader gets some time, but a blocked one must not delay the end much.
pub(super) const FAILED: Duration = Duration::from_secs(5);

/// How long the ranks may take to end after a stop, by signal; 500 ms for a signal that is not set here.
pub(crate) type Grace = HashMap<Signal, Duration>;

/// What happens to the other ranks when one fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnFailure {
    /// The others get 500 ms to report the failure and are then ended.
    #[default]
    EndOthers,
    /// The others continue until they end by themselves or the job times out.
    LetOthersFinish,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Running,
    Reporting,
    Asked,
    Killed,
    GivenUp,
    /// Every rank is gone; only output may be left.
    Gone,
}

#[derive(Debug)]
pub(crate) struct Escalation {
    policy: OnFailure,
    deadline: Option<Instant>,
    grace: Grace,
    phase: Phase,
    /// When the phase ends.
    until: Option<Instant>,
    /// When the first rank failed.
    failed: Option<Instant>,
    /// The last stop that was passed on.
    stop: Option<Signal>,
    /// The first stop, even if the job was already ending.
    stopped: Option<Signal>,
    cause: Option<Ending>,
    timed_out: bool,
}

impl Escalation {
    pub(super) fn new(policy: OnFailure, deadline: Option<Instant>, grace: Grace) -> Self {
        Self {
            policy,
            deadline,
            grace,
            phase: Phase::Running,
            until: None,
            failed: None,
            stop: None,
            stopped: None,
            cause: None,
            timed_out: false,
        }
    }

    /// Records that a rank failed by itself.
    pub(super) fn failed(&mut self, rank: usize, now: Instant) {
        self.cause.get_or_insert(Ending::RankFailed(rank));
        self.failed.get_or_insert(now);
        if self.phase == Phase::Running && self.policy == OnFailure::EndOthers {
            self.enter(Phase::Reporting, now, REPORT);
        }
    }

    /// Records whether a rank that the others have lost is still alive: then the job waits for its last lines.
    pub(super) fn last_words(&mut self, are_awaited: bool) {
        if let (Phase::Reporting, Some(failed)) = (self.phase, self.failed) {
            self.until = Some(failed + if are_awaited { LAST_WORDS } else { REPORT });
        }
    }

    /// Records a request to end the job, and returns the signal that is due. A second Ctrl-C kills; a second signal of another
    /// kind does not, because schedulers send their signal both to the starter and to its group.
    #[must_use]
    pub(super) fn stop(&mut self, signal: Signal, now: Instant) -> Option<Signal> {
        self.cause.get_or_insert(Ending::Stopped(signal));
        self.stopped.get_or_insert(signal);
        match self.phase {
            Phase::Running | Phase::Reporting if signal != Signal::Kill => {
                let grace = self.grace.get(&signal).copied().unwrap_or(ASK);
                self.stop = Some(signal);
                self.enter(Phase::Asked, now, grace);
                Some(signal)
            }
            Phase::Asked if !matches!(signal, Signal::Interrupt | Signal::Kill) => {
                let is_new = self.stop.replace(signal) != Some(signal);
                is_new.then_some(signal)
            }
            Phase::Running | Phase::Reporting | Phase::Asked => {
                self.enter(Phase::Killed, now, KILL);
                Some(Signal::Kill)
            }
            Phase::Killed | Phase::GivenUp | Phase::Gone => None,
        }
    }

    /// Records that every rank is gone: no more signals are due, and the output gets the time it needs.
    pub(super) fn gone(&mut self) {
        (self.phase, self.until) = (Phase::Gone, None);
    }

    /// Records that the output cannot be written, and returns the signal that is due.
    #[must_use]
    pub(super) fn output_lost(&mut self, now: Instant) -> Option<Signal> {
        self.cause.get_or_insert(Ending::OutputLost);
        self.ask(now)
    }

    /// Records that the whole job was suspended for this long.
    pub(super) fn shift(&mut self, by: Duration) {
        for time in [&mut self.deadline, &mut self.until, &mut self.failed] {
            *time = time.map(|time| time + by);
        }
    }

    /// Returns when the job times out, if it has a timeout.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Returns the stop that was passed on and the time by which the ranks must end.
    pub(super) fn stopping(&self) -> Option<(Signal, Instant)> {
        let asked = self.phase == Phase::Asked;
        self.stop.zip(self.until).filter(|_| asked)
    }

    /// Returns when [`tick`](Self::tick) has something to do.
    pub(super) fn next(&self) -> Option<Instant> {
        let deadline = self.deadline.filter(|_| !self.timed_out);
        self.until.into_iter().chain(deadline).min()
    }

    /// Returns the signal that is due at this time.
    #[must_use]
    pub(super) fn tick(&mut self, now: Instant) -> Option<Signal> {
        if self.until.is_some_and(|until| until <= now) {
            return match self.phase {
                Phase::Running | Phase::Reporting => self.ask(now),
                Phase::Asked => {
                    self.enter(Phase::Killed, now, KILL);
                    Some(Signal::Kill)
                }
                Phase::Killed | Phase::GivenUp | Phase::Gone => {
                    (self.phase, self.until) = (Phase::GivenUp, None);
                    None
                }
            };
        }
        if !self.timed_out && self.deadline.is_some_and(|deadline| deadline <= now) {
            self.timed_out = true;
            self.cause.get_or_insert(Ending::TimedOut);
            return self.ask(now);
        }
        None
    }

    pub(super) fn given_up(&self) -> bool {
        self.phase == Phase::GivenUp
    }

    /// Returns how long the output may take once every rank is gone; `None` for no limit.
    pub(crate) fn patience(&self) -> Option<Duration> {
        if self.timed_out || self.stopped.is_some() || self.cause == Some(Ending::OutputLost) {
            return Some(HURRIED);
        }
        self.cause.map(|_| FAILED)
    }

    pub(super) fn ending(&self) -> Ending {
        self.cause.unwrap_or(Ending::Completed)
    }

    pub(super) fn stopped(&self) -> Option<Signal> {
        self.stopped
    }

    pub(super) fn timed_out(&self) -> bool {
        self.timed_out
    }

    fn ask(&mut self, now: Instant) -> Option<Signal> {
        if !matches!(self.phase, Phase::Running | Phase::Reporting) {
            return None;
        }
        self.enter(Phase::Asked, now, ASK);
        Some(Signal::Terminate)
    }

    fn enter(&mut self, phase: Phase, now: Instant, stay: Duration) {
        (self.phase, self.until) = (phase, Some(now + stay));
    }
}

#[cfg(test)]
mod tests;
