//! What became of a job: every rank's end, the first cause, and the exit code that follows from it.

use std::fmt;
use std::io;
use std::time::Duration;

use signal_hook::low_level::signal_name;

use comm_kit::report::Report;

use crate::supervise::signals::Signal;
use crate::verdict::tail::LastLine;

/// How one process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited by itself, with this code.
    Code(i32),
    /// A signal with this number ended it.
    Signal(i32),
    /// It ended, and how is not known: something else in this process has waited for all children and got the answer.
    Unknown,
}

impl Exit {
    /// Returns whether the rank exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns a short name that programs and logs may rely on: it never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Code(_) => "exited",
            Self::Signal(_) => "killed",
            Self::Unknown => "unknown",
        }
    }

    /// Returns whether this is known to be a failure.
    pub(crate) fn failed(self) -> bool {
        !self.success() && self != Self::Unknown
    }

    /// Returns the code a shell would give: the exit code, or 128 + the signal's number; 125 if it is not known.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
            Self::Unknown => 125,
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => match signal_name(number) {
                Some(name) => write!(f, "was killed by {name} (signal {number})"),
                None => write!(f, "was killed by signal {number}"),
            },
            Self::Unknown => f.write_str("ended, its exit code is unknown"),
        }
    }
}

/// What ended a job: the first cause when there were several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Every rank exited with code 0.
    Completed,
    /// This rank is the cause: others lost it, or it failed before anybody else did.
    RankFailed(usize),
    /// The job ran out of time.
    TimedOut,
    /// Somebody asked for the end: Ctrl-C, another signal to the starter, or `Handle::stop`.
    Stopped(Signal),
    /// The sink failed: nobody reads the output any more, say.
    OutputLost,
    /// All ranks ended by themselves, but how this one did is not known: [`Exit::Unknown`].
    Unknown(usize),
}

impl Ending {
    /// Returns a short name that programs and logs may rely on: it never changes.
    ///
    /// ```
    /// assert_eq!(comm_run::Ending::RankFailed(2).as_str(), "rank_failed");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::RankFailed(_) => "rank_failed",
            Self::TimedOut => "timed_out",
            Self::Stopped(_) => "stopped",
            Self::OutputLost => "output_lost",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Why a job that failed was not started again although [`Job::max_restarts`](crate::Job::max_restarts) allowed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRestart {
    /// A rank failed within a second: the next start would fail, too.
    TooSoon,
    /// This code says that the program was started wrongly: 2, 126 or 127.
    StartedWrongly(i32),
}

impl fmt::Display for NoRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSoon => f.write_str("it failed within its first second"),
            Self::StartedWrongly(code) => {
                write!(f, "code {code} says that the program was started wrongly")
            }
        }
    }
}

/// What a rank whose communicator failed reported to the launcher, or one that failed because its last call was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerReport {
    /// The rank it names as the cause, numbered in the whole job, if it knows one; its own if it panicked inside a call, or refused it.
    pub named: Option<usize>,
    /// What happened: `peer lost`, `timed out`, ..
    pub what: String,
    /// The same as a short name that never changes: `peer_lost`, `timed_out`, ..
    pub kind: &'static str,
}

impl From<Report> for PeerReport {
    fn from(report: Report) -> Self {
        Self {
            named: report.named,
            what: report.what.to_string(),
            kind: report.what.as_str(),
        }
    }
}

/// How one rank ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RankOutcome {
    /// Its process id. The number may belong to another process by now.
    pub pid: u32,
    /// How it ended; `None` if it was still there seconds after `SIGKILL` (stuck in the kernel).
    pub exit: Option<Exit>,
    /// The strongest signal the launcher had sent it to end it, if it had to.
    pub ended_by: Option<Signal>,
    /// What it reported of its peers, if its communicator failed, or if it failed after its last call was refused.
    pub report: Option<PeerReport>,
    /// From the job's start to this rank's end.
    pub elapsed: Duration,
    /// The last lines it wrote, at most 20 of each stream.
    pub last_lines: Vec<LastLine>,
    /// Where and why it panicked (Rust), if a backtrace has pushed that out of the last lines: the first lines of its last two panics.
    pub panic_lines: Vec<Vec<u8>>,
}

/// How a whole job ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// The first cause.
    pub ending: Ending,
    /// The number of the first of these ranks in the whole job: 0 unless other machines take part.
    pub first_rank: usize,
    /// Every rank on this machine, in rank order.
    pub ranks: Vec<RankOutcome>,
    /// The rank that failed first, by itself: not the cause if others lost one that did not fail. Can be set beside `TimedOut`
    /// and others: a rank may fail after the deadline.
    pub first_failure: Option<usize>,
    /// The ranks that name the cause in what they reported, counted on this machine.
    pub named_by: Vec<usize>,
    /// Whether nothing tells the rank of [`Ending::RankFailed`] from the others on this machine: all exited with one code, at the same time,
    /// and none names another.
    pub alike: bool,
    /// Whether the job ran out of time, as the first cause or later.
    pub timed_out: bool,
    /// With which signal somebody asked for the end, as the first cause or later.
    pub stopped: Option<Signal>,
    /// How often the job was started again before this.
    pub restarts: usize,
    /// Why a job that failed was not started again, although it had restarts left.
    pub not_restarted: Option<NoRestart>,
    /// What went wrong with the output, if something did.
    pub output_error: Option<io::Error>,
    /// How many lines a sink had not taken, at least, when a job that failed or was stopped ended without waiting for it any longer.
    pub undelivered: usize,
    /// From the start to the end of the last rank and its output.
    pub elapsed: Duration,
}

impl Outcome {
    /// Returns how a job ended of which nothing else is known yet.
    pub(super) fn new(ending: Ending) -> Self {
        Self {
            ending,
            first_rank: 0,
            ranks: Vec::new(),
            first_failure: None,
            named_by: Vec::new(),
            alike: false,
            timed_out: false,
            stopped: None,
            restarts: 0,
            not_restarted: None,
            output_error: None,
            undelivered: 0,
            elapsed: Duration::ZERO,
        }
    }

    /// Returns whether every rank exited with code 0 and nobody had to end the job.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// Returns the exit code for this ending: that of the cause (128 + signal if one killed it, 125 if it is not known), or of the first that failed by
    /// itself if the cause did not; 124 for the deadline; for a stop that of the ranks if all of them exited by themselves, the
    /// first that is not 0, else 128 + signal; 141 for lost output (128 + `SIGPIPE`).
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.ending {
            Ending::Completed => 0,
            Ending::RankFailed(cause) => {
                let failure = |rank: usize| self.ranks.get(rank)?.failure();
                let first = || self.first_failure.and_then(failure);
                failure(cause).or_else(first).map_or(1, Exit::shell_code)
            }
            Ending::Unknown(rank) => {
                let exit = self.ranks.get(rank).and_then(|rank| rank.exit);
                exit.map_or(1, Exit::shell_code)
            }
            Ending::TimedOut => 124,
            Ending::Stopped(signal) => self.own_code().unwrap_or(128 + signal.number()),
            Ending::OutputLost => 128 + rustix::process::Signal::PIPE.as_raw(),
        }
    }

    /// Returns the first code that is not 0, or 0, if every rank exited by itself.
    fn own_code(&self) -> Option<i32> {
        let code = |rank: &RankOutcome| match rank.exit {
            Some(Exit::Code(code)) => Some(code),
            _ => None,
        };
        let codes: Option<Vec<i32>> = self.ranks.iter().map(code).collect();
        codes.map(|codes| codes.into_iter().find(|&code| code != 0).unwrap_or(0))
    }
}

impl RankOutcome {
    /// Returns how this rank failed, if it did so by itself.
    #[must_use]
    pub fn failure(&self) -> Option<Exit> {
        let by_itself = self.ended_by.is_none();
        self.exit.filter(|exit| by_itself && exit.failed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(exit: Option<Exit>, ended_by: Option<Signal>) -> RankOutcome {
        RankOutcome {
            pid: 1,
            exit,
            ended_by,
            report: None,
            elapsed: Duration::ZERO,
            last_lines: Vec::new(),
            panic_lines: Vec::new(),
        }
    }

    #[test]
    fn who_was_ended_or_succeeded_or_is_not_known_did_not_fail_by_itself() {
        let killed = Some(Exit::Signal(9));
        assert_eq!(rank(killed, None).failure(), killed);
        assert_eq!(
            rank(Some(Exit::Code(3)), None).failure(),
            Some(Exit::Code(3))
        );
        assert_eq!(rank(killed, Some(Signal::Kill)).failure(), None);
        for exit in [None, Some(Exit::Code(0)), Some(Exit::Unknown)] {
            assert_eq!(rank(exit, None).failure(), None, "{exit:?}");
        }
    }
}
