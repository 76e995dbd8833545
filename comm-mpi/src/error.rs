//! Why a rank could not join its job, and what MPI's own errors become.

use comm_api::{CommError, FailureKind};
use ferrompi::Error;

/// Tells why [`init`](crate::FerrompiBackend::init) failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct InitError {
    /// What kind of failure it was.
    pub kind: InitErrorKind,
    /// The environment variables that are missing or hold what cannot be used.
    pub variables: Vec<String>,
    /// What failed, and what to do about it.
    pub message: String,
}

/// Tells what kind of failure an [`InitError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitErrorKind {
    /// A required variable is not set.
    MissingConfiguration,
    /// A value cannot be used, alone or with those of the other ranks.
    InvalidConfiguration,
    /// The configuration is right, and the ranks could still not come together.
    Failed,
}

impl InitError {
    pub(crate) fn new(kind: InitErrorKind, variables: &[&str], message: String) -> Self {
        let variables = variables.iter().map(|&variable| variable.to_owned());
        Self {
            kind,
            variables: variables.collect(),
            message,
        }
    }

    pub(crate) fn invalid(variables: &[&str], message: String) -> Self {
        Self::new(InitErrorKind::InvalidConfiguration, variables, message)
    }

    pub(crate) fn failed(variables: &[&str], message: String) -> Self {
        Self::new(InitErrorKind::Failed, variables, message)
    }

    /// Says which step of the start MPI could not do.
    pub(crate) fn mpi(step: &str, error: &Error) -> Self {
        let message = match error {
            Error::AlreadyInitialized | Error::Finalized => {
                format!(
                    "{error}; a process has one FerrompiBackend in its life: create it once, \
                     share it by reference or in an Arc"
                )
            }
            _ => format!("{step}: {error}; look at what mpiexec printed"),
        };
        Self::failed(&[], message)
    }
}

/// Puts an error of MPI into the words of the contract.
#[cold]
pub(crate) fn mpi(operation: &'static str, rank: usize, error: &Error) -> CommError {
    match error {
        Error::ThreadLevelViolation => wrong_thread(operation, rank),
        Error::Finalized => CommError::InvalidCommunicator,
        Error::Mpi { code, .. } => CommError::CollectiveFailed {
            operation,
            kind: FailureKind::Mpi,
            rank: None,
            mpi_error_code: *code,
            message: format!("{error}; this communicator cannot be used any more, restart the job"),
        },
        _ => CommError::failed(operation, FailureKind::Mpi, None, error.to_string()),
    }
}

/// MPI was started with a thread level at which this thread may not call it.
#[cold]
pub(crate) fn wrong_thread(operation: &'static str, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "this MPI library lets only the thread that called init call it; make the call there",
    )
}

/// Another thread is inside MPI, and the library takes one at a time.
#[cold]
pub(crate) fn one_at_a_time(operation: &'static str, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "this MPI library lets one thread call it at a time, and another is inside; let it finish",
    )
}

/// Another thread is inside a collective of the same communicator.
#[cold]
pub(crate) fn busy(operation: &'static str, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "another thread of this rank is inside a collective of this communicator; let one finish \
         before the next, or give each thread a communicator of its own",
    )
}

/// Gives the first cause again, under the name of the method called now.
#[cold]
pub(crate) fn again(error: &CommError, now: &'static str) -> CommError {
    let mut error = error.clone();
    if let CommError::CollectiveFailed { operation, .. } = &mut error {
        *operation = now;
    }
    error
}
