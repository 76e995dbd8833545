//! The messages of errors.

use std::fmt;

use super::{Argument, CommError, FailureKind};
use crate::operation::Operation;
use crate::place::Place;

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
                at,
            } => f
                .debug_struct("CollectiveFailed")
                .field("operation", operation)
                .field("kind", kind)
                .field("rank", rank)
                .field("mpi_error_code", mpi_error_code)
                .field("message", message)
                .field("at", at)
                .finish(),
            Self::InvalidBufferSize {
                operation,
                argument,
                expected,
                actual,
                at,
            } => f
                .debug_struct("InvalidBufferSize")
                .field("operation", operation)
                .field("argument", argument)
                .field("expected", expected)
                .field("actual", actual)
                .field("at", at)
                .finish(),
            Self::InvalidRoot {
                operation,
                root,
                size,
                at,
            } => f
                .debug_struct("InvalidRoot")
                .field("operation", operation)
                .field("root", root)
                .field("size", size)
                .field("at", at)
                .finish(),
            Self::InvalidCommunicator { at } => f
                .debug_struct("InvalidCommunicator")
                .field("at", at)
                .finish(),
            Self::AllocationFailed {
                requested_bytes,
                message,
                at,
            } => f
                .debug_struct("AllocationFailed")
                .field("requested_bytes", requested_bytes)
                .field("message", message)
                .field("at", at)
                .finish(),
            Self::UnsupportedReduction {
                operation,
                op,
                scalar,
                at,
            } => f
                .debug_struct("UnsupportedReduction")
                .field("operation", operation)
                .field("op", op)
                .field("scalar", scalar)
                .field("at", at)
                .finish(),
        }
    }
}

/// Writes where it was called, at the end of a sentence.
pub(super) struct At(pub(super) Option<Place>);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(place) => write!(f, " (at {place})"),
            None => Ok(()),
        }
    }
}

/// Writes what is wrong with the length of an argument.
pub(super) struct Length {
    pub(super) operation: Operation,
    pub(super) argument: Argument,
    pub(super) expected: usize,
    pub(super) actual: usize,
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

/// A calculated number of elements; the largest value stands for all larger ones.
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
pub(super) struct Failure<'a> {
    pub(super) operation: Operation,
    pub(super) kind: FailureKind,
    pub(super) rank: Option<usize>,
    pub(super) mpi_error_code: i32,
    pub(super) message: &'a str,
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
