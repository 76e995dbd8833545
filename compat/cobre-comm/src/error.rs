//! The errors of 0.18, and the conversions from those of the backends.

use std::error::Error;

/// Reports why a collective or a region failed.
///
/// The variants and fields of 0.18. The message also contains what only `comm-api` has: the kind of the failure and the
/// rank to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommError {
    /// The ranks could not complete the operation together.
    #[error("{operation}: {}{message}", code(*.mpi_error_code))]
    CollectiveFailed {
        /// The method that was called.
        operation: &'static str,
        /// The error code of the MPI library; 0 without MPI.
        mpi_error_code: i32,
        /// The kind of failure, the rank to blame, and what to do.
        message: String,
    },
    /// A buffer, or a list of counts or displacements, has the wrong length.
    #[error(
        "{operation}: expected a length of {expected}, got {actual}; correct the arguments and call again"
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
    /// The communicator cannot be used here, for example in a forked child.
    #[error(
        "this communicator cannot be used here (a forked child, or a rank outside of it); create one in this process"
    )]
    InvalidCommunicator,
    /// There is not enough memory for a region or a buffer.
    #[error("cannot allocate {requested_bytes} bytes: {message}")]
    AllocationFailed {
        /// The requested size.
        requested_bytes: usize,
        /// The available memory, and how to get more.
        message: String,
    },
}

/// Formats the code of MPI, if there is one.
fn code(code: i32) -> String {
    match code {
        0 => String::new(),
        code => format!("MPI error {code}: "),
    }
}

impl From<comm_api::CommError> for CommError {
    #[cold]
    fn from(error: comm_api::CommError) -> Self {
        use comm_api::CommError as Cause;
        // Of the variants of 0.18 two have a text of ours: it says where the program made the call.
        let at = error
            .place()
            .map_or_else(String::new, |place| format!(" (at {place})"));
        match error {
            Cause::CollectiveFailed {
                operation,
                kind,
                rank,
                mpi_error_code,
                message,
                ..
            } => {
                let rank = rank.map_or_else(String::new, |rank| format!(", rank {rank}"));
                Self::CollectiveFailed {
                    operation: operation.as_str(),
                    mpi_error_code,
                    message: format!("{kind}{rank}: {message}{at}"),
                }
            }
            Cause::InvalidBufferSize {
                operation,
                expected,
                actual,
                ..
            } => Self::InvalidBufferSize {
                operation: operation.as_str(),
                expected,
                actual,
            },
            Cause::InvalidRoot { root, size, .. } => Self::InvalidRoot { root, size },
            Cause::InvalidCommunicator { .. } => Self::InvalidCommunicator,
            Cause::AllocationFailed {
                requested_bytes,
                message,
                ..
            } => Self::AllocationFailed {
                requested_bytes,
                message: format!("{message}{at}"),
            },
            other => {
                let operation = match other {
                    Cause::UnsupportedReduction { operation, .. } => operation.as_str(),
                    _ => "call",
                };
                let message = other.to_string();
                let start = format!("{operation}: ");
                let message = message.strip_prefix(&start).unwrap_or(&message);
                Self::CollectiveFailed {
                    operation,
                    mpi_error_code: 0,
                    message: message.to_owned(),
                }
            }
        }
    }
}

/// Why a communicator could not be created, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    /// The backend exists, but this program was built without it.
    #[error("the {requested} backend is not compiled in, this program has {}; build it with the feature {requested:?} of cobre-comm, or use BackendKind::Auto, which chooses among the available backends or takes the one that COBRE_COMM_BACKEND names", .available.join(", "))]
    BackendNotAvailable {
        /// The backend that the program, the user or the launcher asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// There is no backend of this name.
    #[error("COBRE_COMM_BACKEND: there is no backend {requested:?}; this program has {}; use one of these, or auto", .available.join(", "))]
    InvalidBackend {
        /// What was asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// The backend is compiled in and configured, but could not start.
    #[error("{backend}: {source}")]
    InitializationFailed {
        /// The backend that was chosen.
        backend: String,
        /// The error of the backend.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Variables that the backend needs are not set.
    #[error("{backend}: not set: {}; set them, or start the ranks with comm-run, which sets them", .missing_vars.join(", "))]
    MissingConfiguration {
        /// The backend that was chosen.
        backend: String,
        /// All missing variables.
        missing_vars: Vec<String>,
    },
}

impl From<comm_factory::BackendError> for BackendError {
    fn from(error: comm_factory::BackendError) -> Self {
        use comm_factory::BackendError as Cause;
        match error {
            Cause::BackendNotAvailable {
                requested,
                available,
            } => Self::BackendNotAvailable {
                requested,
                available,
            },
            Cause::InvalidBackend {
                requested,
                available,
            } => Self::InvalidBackend {
                requested,
                available,
            },
            Cause::InitializationFailed { backend, source } => {
                Self::InitializationFailed { backend, source }
            }
            Cause::MissingConfiguration {
                backend,
                missing_vars,
                ..
            } => Self::MissingConfiguration {
                backend,
                missing_vars,
            },
            other => Self::InitializationFailed {
                backend: "auto".to_owned(),
                source: Box::new(other),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use comm_api::{FailureKind, ReduceOp, ScalarKind};

    use super::*;

    #[test]
    fn kind_and_rank_stand_in_the_message() {
        let lost = comm_api::CommError::failed("barrier", FailureKind::PeerLost, Some(2), "killed");
        let error = CommError::from(lost);
        assert_eq!(error.to_string(), "barrier: peer lost, rank 2: killed");
    }

    #[test]
    fn a_code_of_mpi_is_named_where_there_is_one() {
        let error = CommError::CollectiveFailed {
            operation: "broadcast",
            mpi_error_code: 15,
            message: "truncated".to_owned(),
        };
        assert_eq!(error.to_string(), "broadcast: MPI error 15: truncated");
    }

    #[test]
    fn an_operation_that_floats_do_not_have_says_so() {
        let error = CommError::from(comm_api::CommError::unsupported_reduction(
            "allreduce",
            ReduceOp::BitwiseOr,
            ScalarKind::F64,
        ));
        let text = error.to_string();
        assert!(
            text.starts_with("allreduce: BitwiseOr is not defined for f64"),
            "{text}"
        );
    }
}
