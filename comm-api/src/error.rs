//! What can go wrong in a collective, and whether the communicator survives it.

use std::fmt;

use crate::op::{ReduceOp, ScalarKind};

/// Reports why a collective or a region failed.
///
/// The message is one line: what failed, on which rank, who is to blame, what to do next.
///
/// # Contract
///
/// After an error for which [`is_fatal`](Self::is_fatal) is true, every later call on the same
/// communicator returns the first cause again, at once. After any other error the communicator is
/// as usable as before. On any error the contents of `recv` or `buf` are unspecified.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// The ranks could not complete the operation together.
    #[error("{}", Failure { operation, kind: *kind, rank: *rank, mpi_error_code: *mpi_error_code, message })]
    CollectiveFailed {
        /// The method that was called: `"allgatherv"`, `"fence"`, ..
        operation: &'static str,
        /// What kind of failure it was.
        kind: FailureKind,
        /// The rank to blame, where one is.
        rank: Option<usize>,
        /// The code the MPI library gave; 0 off MPI.
        mpi_error_code: i32,
        /// Details, and what to do about it.
        message: String,
    },
    /// A buffer, or a list of counts or displacements, has the wrong length.
    #[error(
        "{operation}: expected a length of {expected}, got {actual}; nothing was sent, correct the arguments and call again"
    )]
    InvalidBufferSize {
        /// The method that was called.
        operation: &'static str,
        /// The length that fits the other arguments.
        expected: usize,
        /// The length that was given.
        actual: usize,
    },
    /// The root of a broadcast is not a rank.
    #[error("broadcast: root {root} is not a rank of a communicator of size {size}; use 0..{size}")]
    InvalidRoot {
        /// The root that was given.
        root: usize,
        /// The size of the communicator.
        size: usize,
    },
    /// The communicator cannot be used from here, as in a forked child.
    #[error(
        "this communicator cannot be used here (a forked child, or a rank outside of it); create one in this process"
    )]
    InvalidCommunicator,
    /// There is no room for a region or a buffer.
    #[error("cannot allocate {requested_bytes} bytes: {message}")]
    AllocationFailed {
        /// How much was asked for.
        requested_bytes: usize,
        /// What there is, and how to get more.
        message: String,
    },
    /// The operation is not defined for the scalar.
    #[error("allreduce: {op} is not defined for {scalar}; bitwise operations take integers only")]
    UnsupportedReduction {
        /// The operation that was asked for.
        op: ReduceOp,
        /// The scalar it is not defined for.
        scalar: ScalarKind,
    },
}

impl CommError {
    /// Creates a [`CollectiveFailed`](Self::CollectiveFailed) of a backend that has no MPI codes.
    pub fn failed(
        operation: &'static str,
        kind: FailureKind,
        rank: Option<usize>,
        message: impl Into<String>,
    ) -> Self {
        Self::CollectiveFailed {
            operation,
            kind,
            rank,
            mpi_error_code: 0,
            message: message.into(),
        }
    }

    /// Creates a failure of the program itself, for code that returns a `CommError` and has one of its own.
    ///
    /// Nobody is to blame, and the communicator stays usable. The other ranks are not told: a program that cannot go on
    /// agrees on it with them, or drops its communicator.
    ///
    /// ```
    /// use comm_api::CommError;
    ///
    /// let error = CommError::application("solve", "stage 3 is infeasible");
    /// assert_eq!(error.to_string(), "solve: application failure: stage 3 is infeasible");
    /// assert!(!error.is_fatal());
    /// ```
    pub fn application(operation: &'static str, message: impl Into<String>) -> Self {
        Self::failed(operation, FailureKind::Application, None, message)
    }

    /// Returns the first cause again, under the name of the method that is called now.
    ///
    /// ```
    /// use comm_api::{CommError, FailureKind};
    ///
    /// let first = CommError::failed("allreduce", FailureKind::PeerLost, Some(2), "killed");
    /// assert_eq!(first.again("barrier").to_string(), "barrier: peer lost, rank 2: killed");
    /// ```
    #[cold]
    #[must_use]
    pub fn again(&self, operation: &'static str) -> Self {
        let mut error = self.clone();
        if let Self::CollectiveFailed {
            operation: first, ..
        } = &mut error
        {
            *first = operation;
        }
        error
    }

    /// Returns whether the communicator can no longer be used.
    ///
    /// ```
    /// use comm_api::{CommError, FailureKind};
    ///
    /// let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(2), "killed by a signal");
    /// assert!(lost.is_fatal());
    /// assert!(!CommError::InvalidRoot { root: 9, size: 4 }.is_fatal());
    /// ```
    #[must_use]
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::CollectiveFailed { kind, .. } => kind.is_fatal(),
            Self::InvalidCommunicator => true,
            Self::InvalidBufferSize { .. }
            | Self::InvalidRoot { .. }
            | Self::AllocationFailed { .. }
            | Self::UnsupportedReduction { .. } => false,
        }
    }
}

/// Names what kind of failure a [`CommError::CollectiveFailed`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// A rank died, or dropped its communicator, before it contributed.
    PeerLost,
    /// A rank is alive but did not come within the timeout.
    TimedOut,
    /// The ranks called different things.
    Mismatch,
    /// A rank refused its arguments, or this rank is inside another collective already.
    Refused,
    /// A rank called `abort`.
    Aborted,
    /// A link between living ranks broke.
    Io,
    /// The MPI library reported an error.
    Mpi,
    /// The program failed by itself, see [`CommError::application`].
    Application,
}

impl FailureKind {
    /// Returns whether a failure of this kind ends the communicator: all but
    /// [`Refused`](Self::Refused) and [`Application`](Self::Application).
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        !matches!(self, Self::Refused | Self::Application)
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::PeerLost => "peer lost",
            Self::TimedOut => "timed out",
            Self::Mismatch => "mismatch",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Io => "i/o failure",
            Self::Mpi => "MPI failure",
            Self::Application => "application failure",
        })
    }
}

/// Writes a collective failure: `allreduce: peer lost, rank 2: killed by a signal`.
struct Failure<'a> {
    operation: &'static str,
    kind: FailureKind,
    rank: Option<usize>,
    mpi_error_code: i32,
    message: &'a str,
}

impl fmt::Display for Failure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.operation, self.kind)?;
        if let Some(rank) = self.rank {
            write!(f, ", rank {rank}")?;
        }
        if self.mpi_error_code != 0 {
            write!(f, ", MPI error {}", self.mpi_error_code)?;
        }
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}
