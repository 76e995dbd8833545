//! Why a job did not start.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::supervise::signals::Signal;

/// Why a job did not start. No process of the job is left.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The job has no ranks.
    #[error("a job needs at least one rank")]
    NoRanks,
    /// The job has no machine with this number.
    #[error("there is no machine {node}: the job has {nodes}, counted from 0")]
    NoSuchNode {
        /// The number of this machine.
        node: usize,
        /// How many machines there are.
        nodes: usize,
    },
    /// The ranks were to be bound to one processor each, and there are too few processors.
    #[error(
        "{ranks} ranks cannot be bound to {processors} processors, one each; start fewer ranks, or do not bind them"
    )]
    TooFewProcessors {
        /// How many ranks start on this machine.
        ranks: usize,
        /// How many processors this process may use.
        processors: usize,
    },
    /// The system does not allow as many open descriptors as the job needs.
    #[error(
        "{ranks} ranks need {needed} open descriptors, but the limit here is {allowed}; start fewer ranks, or raise the limit (ulimit -Hn, as root)"
    )]
    TooFewDescriptors {
        /// How many ranks start on this machine.
        ranks: usize,
        /// How many descriptors this process would open.
        needed: usize,
        /// How many it may open.
        allowed: u64,
    },
    /// A signal stopped the job while its ranks were being started.
    #[error("stopped by {signal} when {started} of {ranks} ranks had started")]
    Stopped {
        /// The signal.
        signal: Signal,
        /// How many ranks had started; all of them have been ended.
        started: usize,
        /// How many ranks the job has.
        ranks: usize,
    },
    /// The program could not be started.
    #[error("cannot start {}: {}", name(program), reason(program, source))]
    Program {
        /// The program as the caller named it.
        program: OsString,
        /// The first rank that did not start.
        rank: usize,
        /// The system's error.
        source: io::Error,
    },
    /// The ranks' working folder cannot be entered.
    #[error("cannot start in {}: {source}", folder.display())]
    Folder {
        /// The folder as the caller named it.
        folder: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The launcher could not get a resource that it needs itself.
    #[error("cannot {what}: {source}")]
    Setup {
        /// What it tried to do.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

impl StartError {
    /// Returns the exit code that a shell would return: 127 if the program is not found, 126 if it is not executable, 128 + signal
    /// for a stop. Beyond that 125 for a folder that cannot be entered or a failure of the launcher itself (descriptors, processes,
    /// memory), and 2 for a job without ranks, with too few processors to bind its ranks to, or with a wrong machine number.
    #[must_use]
    pub fn exit_code(&self) -> i32 {
        match self {
            Self::NoRanks | Self::NoSuchNode { .. } | Self::TooFewProcessors { .. } => 2,
            Self::Program { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => 127,
                io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => 125,
                // No free descriptor, in this process or in the whole system.
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

    /// Returns a short name for programs and logs; it never changes.
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

/// Returns the program as the caller named it; an empty name is shown in quotes.
fn name(program: &OsStr) -> String {
    if program.is_empty() {
        "''".into()
    } else {
        program.display().to_string()
    }
}

/// Returns the system's error, or a clearer sentence where that would mislead.
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
