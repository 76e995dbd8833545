//! What can go wrong in a collective, and whether the communicator survives it.

mod kind;
mod text;

use text::{At, Failure, Length};

pub use kind::{Argument, FailureKind, Scope};

use crate::op::{ReduceOp, ScalarKind};
use crate::operation::Operation;
use crate::place::Place;

/// Reports why a collective or a region failed.
///
/// The message is one line: what failed, on which rank, which rank is to blame, and what to do next. `{:?}` shows it, too, because an
/// `unwrap`, or a `main` that returns an error, prints that; `{:#?}` shows the fields.
///
/// ```
/// use comm_api::{CommError, Operation};
///
/// let error = CommError::invalid_root(Operation::Broadcast, 9, 4);
/// assert_eq!(format!("{error:?}"), error.to_string());
/// assert!(format!("{error:#?}").starts_with("InvalidRoot {"));
/// assert_eq!(error.as_str(), "invalid_root");
/// ```
///
/// The errors of calls say last where the program made the call: ` (at src/solver.rs:88)`. [`place`](Self::place) returns it, and
/// `==` ignores it.
///
/// # Contract
///
/// An error is fatal to the communicator or region that was called, or to nothing: [`fatal_to`](Self::fatal_to) says which.
///
/// | fatal to | when | from then on |
/// |---|---|---|
/// | the communicator | a collective, including `exchange`, failed in any way other than a refusal | every later call on it returns the first cause again, at once |
/// | a region | its `fence` failed in any way other than a refusal | only this handle is broken: its accessors panic, and its `fence` returns the cause again. The communicator and other regions stay usable |
/// | nothing | arguments were refused, here or on another rank; no memory; a failure of the program | everything stays usable |
///
/// A dead rank also fails the next call of its communicator, with an error of that call. After any error the contents of `recv`
/// or `buf` are unspecified.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CommError {
    /// The ranks could not complete the operation together.
    #[error("{}{}", Failure { operation: *operation, kind: *kind, rank: *rank, mpi_error_code: *mpi_error_code, message }, At(*at))]
    #[non_exhaustive]
    CollectiveFailed {
        /// The method that was called.
        operation: Operation,
        /// What kind of failure it was.
        kind: FailureKind,
        /// The rank to blame, if there is one.
        rank: Option<usize>,
        /// The code from the MPI library; 0 on other backends.
        mpi_error_code: i32,
        /// Details, and what to do about it.
        message: String,
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
    /// A buffer, or a list of counts or displacements, has the wrong length.
    #[error("{}{}", Length { operation: *operation, argument: *argument, expected: *expected, actual: *actual }, At(*at))]
    #[non_exhaustive]
    InvalidBufferSize {
        /// The method that was called.
        operation: Operation,
        /// What has the wrong length.
        argument: Argument,
        /// The length that fits the other arguments.
        expected: usize,
        /// The actual length.
        actual: usize,
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
    /// The root is not a rank.
    #[error(
        "{operation}: root {root} is not a rank of a communicator of size {size}; use 0..{size}{}",
        At(*at)
    )]
    #[non_exhaustive]
    InvalidRoot {
        /// The method that was called.
        operation: Operation,
        /// The root that was passed.
        root: usize,
        /// The size of the communicator.
        size: usize,
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
    /// The communicator cannot be used from here, as in a forked child.
    #[error(
        "this communicator cannot be used here (a forked child, or a rank outside of it); create one in this process{}",
        At(*at)
    )]
    #[non_exhaustive]
    InvalidCommunicator {
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
    /// There is not enough memory for a region or a buffer.
    #[error("cannot allocate {requested_bytes} bytes: {message}{}", At(*at))]
    #[non_exhaustive]
    AllocationFailed {
        /// How many bytes were requested.
        requested_bytes: usize,
        /// How much is available, and how to get more.
        message: String,
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
    /// The operation is not defined for the scalar.
    #[error("{operation}: {op} is not defined for {scalar}; bitwise operations take integers only{}", At(*at))]
    #[non_exhaustive]
    UnsupportedReduction {
        /// The method that was called.
        operation: Operation,
        /// The requested operation.
        op: ReduceOp,
        /// The scalar for which it is not defined.
        scalar: ScalarKind,
        /// Where it was called, if that is known.
        at: Option<Place>,
    },
}

impl CommError {
    /// Creates a [`CollectiveFailed`](Self::CollectiveFailed) of a backend that has no MPI codes.
    pub fn failed(
        operation: impl Into<Operation>,
        kind: FailureKind,
        rank: Option<usize>,
        message: impl Into<String>,
    ) -> Self {
        Self::CollectiveFailed {
            operation: operation.into(),
            kind,
            rank,
            mpi_error_code: 0,
            message: message.into(),
            at: None,
        }
    }

    /// Creates a [`CollectiveFailed`](Self::CollectiveFailed) with the code from the MPI library.
    pub fn mpi(
        operation: impl Into<Operation>,
        rank: Option<usize>,
        mpi_error_code: i32,
        message: impl Into<String>,
    ) -> Self {
        Self::CollectiveFailed {
            operation: operation.into(),
            kind: FailureKind::Mpi,
            rank,
            mpi_error_code,
            message: message.into(),
            at: None,
        }
    }

    /// Creates an [`InvalidBufferSize`](Self::InvalidBufferSize).
    // Kept inline, so that the compiler sees which variant it is and drops the test for it.
    #[inline]
    pub fn invalid_buffer_size(
        operation: impl Into<Operation>,
        argument: Argument,
        expected: usize,
        actual: usize,
    ) -> Self {
        Self::InvalidBufferSize {
            operation: operation.into(),
            argument,
            expected,
            actual,
            at: None,
        }
    }

    /// Creates an [`InvalidRoot`](Self::InvalidRoot).
    #[inline]
    pub fn invalid_root(operation: impl Into<Operation>, root: usize, size: usize) -> Self {
        Self::InvalidRoot {
            operation: operation.into(),
            root,
            size,
            at: None,
        }
    }

    /// Creates an [`InvalidCommunicator`](Self::InvalidCommunicator).
    #[must_use]
    pub const fn invalid_communicator() -> Self {
        Self::InvalidCommunicator { at: None }
    }

    /// Creates an [`AllocationFailed`](Self::AllocationFailed).
    pub fn allocation_failed(requested_bytes: usize, message: impl Into<String>) -> Self {
        Self::AllocationFailed {
            requested_bytes,
            message: message.into(),
            at: None,
        }
    }

    /// Creates an [`UnsupportedReduction`](Self::UnsupportedReduction).
    #[inline]
    pub fn unsupported_reduction(
        operation: impl Into<Operation>,
        op: ReduceOp,
        scalar: ScalarKind,
    ) -> Self {
        Self::UnsupportedReduction {
            operation: operation.into(),
            op,
            scalar,
            at: None,
        }
    }

    /// Creates a failure of the program itself, for code that returns a `CommError` and fails for a reason of its own.
    ///
    /// No rank is to blame, and the communicator stays usable. The other ranks are not notified: a program that cannot
    /// continue must agree on that with them, or drop its communicator.
    ///
    /// ```
    /// use comm_api::CommError;
    ///
    /// let error = CommError::application("solve", "stage 3 is infeasible");
    /// assert_eq!(error.to_string(), "solve: application failure: stage 3 is infeasible");
    /// assert!(!error.is_fatal());
    /// ```
    pub fn application(operation: impl Into<Operation>, message: impl Into<String>) -> Self {
        Self::failed(operation, FailureKind::Application, None, message)
    }

    /// Returns where the program made the call, if that is known.
    ///
    /// ```
    /// use comm_api::Communicator;
    ///
    /// let error = comm_local::LocalBackend.broadcast(&mut [1.0], 3).unwrap_err();
    /// let place = error.place().unwrap();
    /// assert_eq!((place.file(), place.line()), (file!(), line!() - 2));
    /// assert!(error.to_string().ends_with(&format!(" (at {place})")));
    /// ```
    #[must_use]
    pub const fn place(&self) -> Option<Place> {
        match self {
            Self::CollectiveFailed { at, .. }
            | Self::InvalidBufferSize { at, .. }
            | Self::InvalidRoot { at, .. }
            | Self::InvalidCommunicator { at }
            | Self::AllocationFailed { at, .. }
            | Self::UnsupportedReduction { at, .. } => *at,
        }
    }

    /// Says where it was called, unless that is known: the first place stays.
    #[cold]
    #[must_use]
    pub fn called_at(mut self, place: Place) -> Self {
        self.at_mut().get_or_insert(place);
        self
    }

    /// Says that it was called where the caller of the function that says so is, unless that is known.
    #[cold]
    #[must_use]
    #[track_caller]
    pub fn here(self) -> Self {
        self.called_at(Place::caller())
    }

    /// Returns the error as ranks tell it each other: without the place.
    #[cold]
    #[must_use]
    pub fn placeless(&self) -> Self {
        let mut error = self.clone();
        *error.at_mut() = None;
        error
    }

    fn at_mut(&mut self) -> &mut Option<Place> {
        match self {
            Self::CollectiveFailed { at, .. }
            | Self::InvalidBufferSize { at, .. }
            | Self::InvalidRoot { at, .. }
            | Self::InvalidCommunicator { at }
            | Self::AllocationFailed { at, .. }
            | Self::UnsupportedReduction { at, .. } => at,
        }
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
    pub fn again(&self, operation: impl Into<Operation>) -> Self {
        let mut error = self.clone();
        if let Self::CollectiveFailed {
            operation: first, ..
        } = &mut error
        {
            *first = operation.into();
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
            Self::InvalidCommunicator { .. } => "invalid_communicator",
            Self::AllocationFailed { .. } => "allocation_failed",
            Self::UnsupportedReduction { .. } => "unsupported_reduction",
        }
    }

    /// Returns whether the communicator can no longer be used, or the region if the call was a `fence`.
    /// [`fatal_to`](Self::fatal_to) distinguishes the two.
    ///
    /// ```
    /// use comm_api::{CommError, FailureKind};
    ///
    /// let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(2), "killed by a signal");
    /// assert!(lost.is_fatal());
    /// assert!(!CommError::invalid_root("broadcast", 9, 4).is_fatal());
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
    /// let late = CommError::failed("fence", FailureKind::TimedOut, Some(1), "rank 1 is late");
    /// assert_eq!(late.fatal_to(), Some(Scope::Region));
    /// let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(2), "killed by a signal");
    /// assert_eq!(lost.fatal_to(), Some(Scope::Communicator));
    /// assert_eq!(CommError::invalid_root("broadcast", 9, 4).fatal_to(), None);
    /// ```
    #[must_use]
    pub fn fatal_to(&self) -> Option<Scope> {
        match self {
            Self::CollectiveFailed { kind, .. } if !kind.is_fatal() => None,
            // Only a fence is a call of a region; an exchange is a collective of the communicator.
            Self::CollectiveFailed {
                operation: Operation::Fence,
                ..
            } => Some(Scope::Region),
            Self::CollectiveFailed { .. } | Self::InvalidCommunicator { .. } => {
                Some(Scope::Communicator)
            }
            Self::InvalidBufferSize { .. }
            | Self::InvalidRoot { .. }
            | Self::AllocationFailed { .. }
            | Self::UnsupportedReduction { .. } => None,
        }
    }
}

/// Compares everything but the place.
impl PartialEq for CommError {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::CollectiveFailed {
                    operation,
                    kind,
                    rank,
                    mpi_error_code,
                    message,
                    at: _,
                },
                Self::CollectiveFailed {
                    operation: its_operation,
                    kind: its_kind,
                    rank: its_rank,
                    mpi_error_code: its_code,
                    message: its_message,
                    at: _,
                },
            ) => {
                (operation, kind, rank) == (its_operation, its_kind, its_rank)
                    && (mpi_error_code, message) == (its_code, its_message)
            }
            (
                Self::InvalidBufferSize {
                    operation,
                    argument,
                    expected,
                    actual,
                    at: _,
                },
                Self::InvalidBufferSize {
                    operation: its_operation,
                    argument: its_argument,
                    expected: its_expected,
                    actual: its_actual,
                    at: _,
                },
            ) => {
                (operation, argument) == (its_operation, its_argument)
                    && (expected, actual) == (its_expected, its_actual)
            }
            (
                Self::InvalidRoot {
                    operation,
                    root,
                    size,
                    at: _,
                },
                Self::InvalidRoot {
                    operation: its_operation,
                    root: its_root,
                    size: its_size,
                    at: _,
                },
            ) => (operation, root, size) == (its_operation, its_root, its_size),
            (Self::InvalidCommunicator { at: _ }, Self::InvalidCommunicator { at: _ }) => true,
            (
                Self::AllocationFailed {
                    requested_bytes,
                    message,
                    at: _,
                },
                Self::AllocationFailed {
                    requested_bytes: its_bytes,
                    message: its_message,
                    at: _,
                },
            ) => (requested_bytes, message) == (its_bytes, its_message),
            (
                Self::UnsupportedReduction {
                    operation,
                    op,
                    scalar,
                    at: _,
                },
                Self::UnsupportedReduction {
                    operation: its_operation,
                    op: its_op,
                    scalar: its_scalar,
                    at: _,
                },
            ) => (operation, op, scalar) == (its_operation, its_op, its_scalar),
            _ => false,
        }
    }
}

impl Eq for CommError {}
