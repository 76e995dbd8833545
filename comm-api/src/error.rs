//! What can go wrong in a collective, and whether the communicator survives it.

use std::fmt;

use crate::op::{ReduceOp, ScalarKind};

/// Reports why a collective or a region failed.
///
/// The message is one line: what failed, on which rank, who is to blame, what to do next. `{:?}` shows it, too, because that is what a
/// `main` that returns an error, or an `unwrap`, prints; `{:#?}` shows the fields.
///
/// ```
/// use comm_api::CommError;
///
/// let error = CommError::InvalidRoot { root: 9, size: 4 };
/// assert_eq!(format!("{error:?}"), error.to_string());
/// assert!(format!("{error:#?}").starts_with("InvalidRoot {"));
/// assert_eq!(error.as_str(), "invalid_root");
/// ```
///
/// # Contract
///
/// An error is fatal to what the call was made on, or to nothing: [`fatal_to`](Self::fatal_to) says which.
///
/// | fatal to | when | from then on |
/// |---|---|---|
/// | the communicator | a collective failed for good, `exchange` included, in any way but a refusal | every later call on it returns the first cause again, at once |
/// | a region | its `fence` failed for good | this handle only: its accessors panic, and its `fence` returns the cause again. The communicator and other regions are as usable as before |
/// | nothing | arguments were refused, here or on another rank; no room; a failure of the program | all is as before |
///
/// A rank that is dead fails the next call of its communicator, too; that call says so. On any error the contents of `recv`
/// or `buf` are unspecified.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
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
    #[error("{}", Length { operation, argument: *argument, expected: *expected, actual: *actual })]
    InvalidBufferSize {
        /// The method that was called.
        operation: &'static str,
        /// What has the wrong length.
        argument: Argument,
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

    /// Returns a short name that programs and logs may rely on: it never changes. Of a failed collective it is that of the
    /// [kind](FailureKind::as_str).
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::CollectiveFailed { kind, .. } => kind.as_str(),
            Self::InvalidBufferSize { .. } => "invalid_buffer_size",
            Self::InvalidRoot { .. } => "invalid_root",
            Self::InvalidCommunicator => "invalid_communicator",
            Self::AllocationFailed { .. } => "allocation_failed",
            Self::UnsupportedReduction { .. } => "unsupported_reduction",
        }
    }

    /// Returns whether what the call was made on can no longer be used: the communicator, or a region if the call was a
    /// `fence`. [`fatal_to`](Self::fatal_to) tells the two apart.
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
        self.fatal_to().is_some()
    }

    /// Returns what can no longer be used after this error.
    ///
    /// ```
    /// use comm_api::{CommError, FailureKind, Scope};
    ///
    /// let late = CommError::failed("fence", FailureKind::TimedOut, Some(1), "rank 1 did not come");
    /// assert_eq!(late.fatal_to(), Some(Scope::Region));
    /// let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(2), "killed by a signal");
    /// assert_eq!(lost.fatal_to(), Some(Scope::Communicator));
    /// assert_eq!(CommError::InvalidRoot { root: 9, size: 4 }.fatal_to(), None);
    /// ```
    #[must_use]
    pub fn fatal_to(&self) -> Option<Scope> {
        let (operation, fatal) = match self {
            Self::CollectiveFailed {
                operation, kind, ..
            } => (*operation, kind.is_fatal()),
            Self::InvalidCommunicator => ("", true),
            Self::InvalidBufferSize { .. }
            | Self::InvalidRoot { .. }
            | Self::AllocationFailed { .. }
            | Self::UnsupportedReduction { .. } => ("", false),
        };
        // A fence is the one call that is made on a region; an exchange is a collective of the communicator.
        let scope = match operation {
            "fence" => Scope::Region,
            _ => Scope::Communicator,
        };
        fatal.then_some(scope)
    }
}

impl fmt::Debug for CommError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::CollectiveFailed {
                operation,
                kind,
                rank,
                mpi_error_code,
                message,
            } => f
                .debug_struct("CollectiveFailed")
                .field("operation", operation)
                .field("kind", kind)
                .field("rank", rank)
                .field("mpi_error_code", mpi_error_code)
                .field("message", message)
                .finish(),
            Self::InvalidBufferSize {
                operation,
                argument,
                expected,
                actual,
            } => f
                .debug_struct("InvalidBufferSize")
                .field("operation", operation)
                .field("argument", argument)
                .field("expected", expected)
                .field("actual", actual)
                .finish(),
            Self::InvalidRoot { root, size } => f
                .debug_struct("InvalidRoot")
                .field("root", root)
                .field("size", size)
                .finish(),
            Self::InvalidCommunicator => f.write_str("InvalidCommunicator"),
            Self::AllocationFailed {
                requested_bytes,
                message,
            } => f
                .debug_struct("AllocationFailed")
                .field("requested_bytes", requested_bytes)
                .field("message", message)
                .finish(),
            Self::UnsupportedReduction { op, scalar } => f
                .debug_struct("UnsupportedReduction")
                .field("op", op)
                .field("scalar", scalar)
                .finish(),
        }
    }
}

/// Names what a fatal error leaves unusable, see [`CommError::fatal_to`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// One handle to a region, and nothing else.
    Region,
    /// The communicator, on all ranks.
    Communicator,
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
    /// Returns whether a failure of this kind ends what the call was made on: all but
    /// [`Refused`](Self::Refused) and [`Application`](Self::Application).
    #[must_use]
    pub const fn is_fatal(self) -> bool {
        !matches!(self, Self::Refused | Self::Application)
    }

    /// Returns a short name that programs and logs may rely on: it never changes.
    ///
    /// ```
    /// assert_eq!(comm_api::FailureKind::PeerLost.as_str(), "peer_lost");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::PeerLost => "peer_lost",
            Self::TimedOut => "timed_out",
            Self::Mismatch => "mismatch",
            Self::Refused => "refused",
            Self::Aborted => "aborted",
            Self::Io => "io",
            Self::Mpi => "mpi",
            Self::Application => "application",
        }
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

/// Names the argument of a [`CommError::InvalidBufferSize`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Argument {
    /// `send`
    Send,
    /// `recv`
    Recv,
    /// `buf`
    Buf,
    /// `counts`
    Counts,
    /// `displs`
    Displs,
    /// `displs`, by which the blocks of these two ranks overlap: the lower of the two, then the other.
    Overlap(usize, usize),
    /// An argument of a function that is built on the collectives.
    Other(&'static str),
}

impl Argument {
    /// Returns the name of the argument, as the documentation of the method has it.
    ///
    /// ```
    /// use comm_api::Argument;
    ///
    /// assert_eq!(Argument::Counts.as_str(), "counts");
    /// assert_eq!(Argument::Overlap(1, 2).as_str(), "displs");
    /// ```
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Recv => "recv",
            Self::Buf => "buf",
            Self::Counts => "counts",
            Self::Displs | Self::Overlap(..) => "displs",
            Self::Other(name) => name,
        }
    }
}

/// Writes what is wrong with the length of an argument.
struct Length {
    operation: &'static str,
    argument: Argument,
    expected: usize,
    actual: usize,
}

impl fmt::Display for Length {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Self {
            operation,
            argument,
            expected,
            actual,
        } = self;
        let expected = Count(expected);
        let name = argument.as_str();
        match argument {
            Argument::Counts | Argument::Displs => write!(
                f,
                "{operation}: {name} has {actual} entries, expected {expected}, one per rank"
            ),
            Argument::Overlap(first, second) => write!(
                f,
                "{operation}: {name} lets the blocks of ranks {first} and {second} overlap; all blocks cover {actual} \
                 elements of recv, expected {expected}"
            ),
            _ => write!(
                f,
                "{operation}: {name} has a length of {actual}, expected {expected}"
            ),
        }?;
        f.write_str("; nothing was sent, correct the arguments and call again")
    }
}

/// A number of elements that was calculated; the largest stands for all that are larger.
struct Count(usize);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            usize::MAX => f.write_str("more than can be counted"),
            count => count.fmt(f),
        }
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
