//! How a job ended: the end of every rank, the first cause, and the exit code that follows.

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
    /// It ended, but its exit code is unknown: other code in this process waits for all children and has taken it.
    Unknown,
}

impl Exit {
    /// Returns whether the rank exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns a short name for programs and logs; it never changes.
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

    /// Returns the code that a shell would return: the exit code, or 128 + the signal's number; 125 if it is unknown.
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
    /// This rank is the cause: others lost it, or it failed first.
    RankFailed(usize),
    /// The job timed out.
    TimedOut,
    /// The job was stopped: by Ctrl-C, another signal to the starter, or `Handle::stop`.
    Stopped(Signal),
    /// The sink failed, for example because the reader of the output is gone.
    OutputLost,
    /// All ranks ended by themselves, but the exit code of this one is unknown: [`Exit::Unknown`].
    Unknown(usize),
}

impl Ending {
    /// Returns a short name for programs and logs; it never changes.
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

/// Why a failed job was not restarted although [`Job::max_restarts`](crate::Job::max_restarts) allowed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoRestart {
    /// A rank failed within its first second, and would probably fail again.
    TooSoon,
    /// The exit code (2, 126 or 127) means that the program was started wrongly.
    StartedWrongly(i32),
}

impl fmt::Display for NoRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooSoon => f.write_str("it failed within its first second"),
            Self::StartedWrongly(code) => {
                write!(
                    f,
                    "exit code {code} means that the program was started wrongly"
                )
            }
        }
    }
}

/// The report of a rank to the launcher: its communicator failed, or it failed after its last call was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerReport {
    /// The rank it names as the cause, numbered in the whole job, if it knows one; itself if it panicked inside a call or passed
    /// invalid arguments.
    pub named: Option<usize>,
    /// What happened: `peer lost`, `timed out`, ..
    pub what: String,
    /// The same as a short name that never changes: `peer_lost`, `timed_out`, ..
    pub kind: &'static str,
    /// Where its program made the call that failed, if that is known: `src/solver.rs:88`.
    pub at: Option<String>,
}

impl From<Report> for PeerReport {
    fn from(report: Report) -> Self {
        Self {
            named: report.named,
            what: report.what.to_string(),
            kind: report.what.as_str(),
            at: report.at.map(|at| at.to_string()),
        }
    }
}

/// How one rank ended.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RankOutcome {
    /// Its process id, which may belong to another process by now.
    pub pid: u32,
    /// How it ended; `None` if it still existed seconds after `SIGKILL` (stuck in the kernel).
    pub exit: Option<Exit>,
    /// The strongest signal that the launcher sent to end it, if any.
    pub ended_by: Option<Signal>,
    /// Its report about its peers, if its communicator failed or it failed after its last call was refused.
    pub report: Option<PeerReport>,
    /// The time from the start of the job to the end of this rank.
    pub elapsed: Duration,
    /// The last lines it wrote, at most 20 of each stream.
    pub last_lines: Vec<LastLine>,
    /// The first lines of its last two Rust panics, if a backtrace has pushed them out of the last lines.
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
    /// The first rank that failed by itself. Not the cause if the others lost a rank that did not fail. May also be set for
    /// `TimedOut` and other endings, because a rank may fail after the deadline.
    pub first_failure: Option<usize>,
    /// The ranks whose reports name the cause, numbered on this machine.
    pub named_by: Vec<usize>,
    /// Whether nothing distinguishes the rank of [`Ending::RankFailed`] from the others on this machine: all exited with the same
    /// code at the same time, and none names another.
    pub alike: bool,
    /// Whether the job timed out, as the first cause or later.
    pub timed_out: bool,
    /// The signal that stopped the job, as the first cause or later.
    pub stopped: Option<Signal>,
    /// The number of restarts before this start.
    pub restarts: usize,
    /// Why a failed job was not restarted although it had restarts left.
    pub not_restarted: Option<NoRestart>,
    /// Why the output could not be written, if it could not.
    pub output_error: Option<io::Error>,
    /// The number of lines, at least, that a sink had not taken when a failed or stopped job ended without waiting for it any longer.
    pub undelivered: usize,
    /// The time from the start to the end of the last rank and its output.
    pub elapsed: Duration,
}

impl Outcome {
    /// Returns an outcome with this ending and nothing else filled in yet.
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

    /// Returns whether every rank exited with code 0 and the job was not ended early.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// Returns the exit code for this ending:
    ///
    /// - a failure: that of the cause (128 + signal if a signal killed it, 125 if it is unknown), or of the first rank that failed
    ///   by itself if the cause did not
    /// - a timeout: 124
    /// - a stop: the first code of a rank that is not 0, or 0, if all ranks exited by themselves, else 128 + signal
    /// - lost output: 141 (128 + `SIGPIPE`)
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

    /// If every rank exited by itself, returns the first code that is not 0, or 0.
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
    /// Returns how this rank failed, if it failed by itself.
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
