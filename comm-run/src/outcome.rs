//! What became of a job: every rank's end, the first cause, and the exit code that follows from it.

use std::fmt;
use std::io;
use std::time::Duration;

use signal_hook::low_level::signal_name;

use crate::signal::Signal;
use crate::tail::LastLine;

/// How one process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It exited by itself, with this code.
    Code(i32),
    /// A signal with this number ended it.
    Signal(i32),
}

impl Exit {
    /// Returns whether the rank exited with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }

    /// Returns the code a shell would give: the exit code, or 128 + the signal's number.
    #[must_use]
    pub fn shell_code(self) -> i32 {
        match self {
            Self::Code(code) => code,
            Self::Signal(number) => 128 + number,
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
        }
    }
}

/// What ended a job: the first cause when there were several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Every rank exited with code 0.
    Completed,
    /// This rank failed before anybody else did.
    RankFailed(usize),
    /// The job ran out of time.
    TimedOut,
    /// Somebody asked for the end: Ctrl-C, another signal to the starter, or `Handle::stop`.
    Stopped(Signal),
    /// The sink failed: nobody reads the output any more, say.
    OutputLost,
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
    /// From the job's start to this rank's end.
    pub elapsed: Duration,
    /// The last lines it wrote, at most 20 of each stream.
    pub last_lines: Vec<LastLine>,
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
    /// The rank that failed first, by itself. Can be set beside `TimedOut` and others: a rank may
    /// fail after the deadline.
    pub first_failure: Option<usize>,
    /// Whether the job ran out of time, as the first cause or later.
    pub timed_out: bool,
    /// What went wrong with the output, if something did.
    pub output_error: Option<io::Error>,
    /// From the start to the end of the last rank and its output.
    pub elapsed: Duration,
}

impl Outcome {
    /// Returns whether every rank exited with code 0 and nobody had to end the job.
    #[must_use]
    pub fn success(&self) -> bool {
        self.ending == Ending::Completed
    }

    /// Returns the exit code for this ending: that of the rank that failed first (128 + signal if
    /// one killed it), 124 for the deadline, 128 + signal for a stop, 141 for lost output (128 +
    /// `SIGPIPE`).
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self.ending {
            Ending::Completed => 0,
            Ending::RankFailed(rank) => self
                .ranks
                .get(rank)
                .and_then(|rank| rank.exit)
                .map_or(1, Exit::shell_code),
            Ending::TimedOut => 124,
            Ending::Stopped(signal) => 128 + signal.number(),
            Ending::OutputLost => 128 + rustix::process::Signal::PIPE.as_raw(),
        }
    }
}
