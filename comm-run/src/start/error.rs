//! Why a job did not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::supervise::signals::Signal;

/// Why a job did not start. Nothing of it is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The job has no ranks.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// This machine is none of those that the job is on.
    #[error("there is no machine {node}: the job has {nodes}, counted from 0")]
    NoSuchNode {
        /// The number given for this machine.
        node: usize,
        /// How many machines there are.
        nodes: usize,
    },
    /// Each rank was to have a processor of its own, and there are too few.
    #[error(
        "{ranks} ranks cannot be bound to {processors} processors, one each; start fewer, or do not bind them"
    )]
    TooFewProcessors {
        /// How many ranks start on this machine.
        ranks: usize,
        /// How many processors this process may use.
        processors: usize,
    },
    /// The system does not allow as many open descriptors as the job needs.
    #[error(
        "{ranks} ranks need {needed} open descriptors, and the limit here is {allowed}; start fewer, or raise the limit (ulimit -Hn, as root)"
    )]
    TooFewDescriptors {
        /// How many ranks start on this machine.
        ranks: usize,
        /// How many descriptors this process would have open.
        needed: usize,
        /// How many it may have.
        allowed: u64,
    },
    /// Somebody asked for the end while the ranks were being started.
    #[error("stopped by {signal} when {started} of {ranks} ranks had started")]
    Stopped {
        /// The signal.
        signal: Signal,
        /// How many ranks had started; they are gone.
        started: usize,
        /// How many were to start.
        ranks: usize,
    },
    /// The program could not be started.
    #[error("cannot start {}: {}", name(program), reason(program, source))]
    Program {
        /// The program as it was named.
        program: OsString,
        /// The first rank that did not start.
        rank: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The folder the ranks should start in cannot be entered.
    #[error("cannot start in {}: {source}", folder.display())]
    Folder {
        /// The folder as it was named.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The launcher could not get something it needs itself.
    #[error("cannot {what}: {source}")]
    Setup {
        /// What it was about to do.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// Returns the exit code a shell would give: 127 not found, 126 found but not executable, 125
    /// for a folder that cannot be entered and trouble of the launcher's own (descriptors, processes, memory), 2 for a job without
    /// ranks, with more than processors to bind them to, or on a machine beyond the last, 128 + signal for a stop.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoRanks | Self::NoSuchNode { .. } | Self::TooFewProcessors { .. } => 2,
            Self::Program { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => 127,
                io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => 125,
                // No descriptor was free, in this process or in the system.
                _ if matches!(
                    Errno::from_io_error(source),
                    Some(Errno::MFILE | Errno::NFILE)
                ) =>
                {
                    125
                }
                _ => 126,
            },
            Self::Stopped { signal, .. } => 128 + signal.number(),
            Self::Folder { .. } | Self::Setup { .. } | Self::TooFewDescriptors { .. } => 125,
        }
    }

    /// Returns a short name that programs and logs may rely on: it never changes.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::NoRanks => "no_ranks",
            Self::NoSuchNode { .. } => "no_such_node",
            Self::TooFewProcessors { .. } => "too_few_processors",
            Self::TooFewDescriptors { .. } => "too_few_descriptors",
            Self::Stopped { .. } => "stopped",
            Self::Program { .. } => "program",
            Self::Folder { .. } => "folder",
            Self::Setup { .. } => "setup",
        }
    }

    pub(crate) fn setup(what: &'static str) -> impl Fn(io::Error) -> Self {
        move |source| Self::Setup { what, source }
    }
}

/// Returns the program as it was named, visible also if the name is empty.
fn name(program: &OsStr) -> String {
    if program.is_empty() {
        "''".into()
    } else {
        program.display().to_string()
    }
}

/// Returns what the system said, or something more helpful where its words mislead.
fn reason(program: &OsStr, source: &io::Error) -> String {
    match source.kind() {
        _ if program.is_empty() => "the name of the program is empty".into(),
        io::ErrorKind::NotFound if !program.as_encoded_bytes().contains(&b'/') => {
            "not found in PATH (write ./ in front of a program in this folder)".into()
        }
        io::ErrorKind::NotFound if Path::new(program).exists() => {
            "it exists, but the interpreter or loader it names does not".into()
        }
        io::ErrorKind::NotFound => "no such file".into(),
        io::ErrorKind::PermissionDenied => {
            "it is not executable, or you may not enter its folder".into()
        }
        io::ErrorKind::WouldBlock => format!("{source} (the limit on processes: see ulimit -u)"),
        _ => source.to_string(),
    }
}
