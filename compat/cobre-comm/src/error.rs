//! The errors of 0.18, and how those of the backends become them.

use std::error::Error;

/// Reports why a collective or a region failed.
///
/// The variants and fields of 0.18. What `comm-api` says beyond them, the kind of a failure and the rank to blame,
/// stands in the message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommError {
    /// The ranks could not complete the operation together.
    #[error("{operation}: {}{message}", code(*.mpi_error_code))]
    CollectiveFailed {
        /// The method that was called.
        operation: &'static str,
        /// The code the MPI library gave; 0 off MPI.
        mpi_error_code: i32,
        /// What kind of failure it was, which rank is to blame, and what to do.
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
}

/// Writes the code of MPI, where there is one.
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
    /// The backend exists, and this program was built without it.
    #[error("the {requested} backend is not compiled in, this program has {}; build it with the feature {requested:?} of cobre-comm, or ask for BackendKind::Auto, which takes what there is or what COBRE_COMM_BACKEND names", .available.join(", "))]
    BackendNotAvailable {
        /// What was asked for, or what the launcher asks for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// There is no backend of this name.
    #[error("COBRE_COMM_BACKEND: there is no backend {requested:?}; this program has {}, or leave it to auto", .available.join(", "))]
    InvalidBackend {
        /// What was asked for.
        requested: String,
        /// What is compiled in.
        available: Vec<String>,
    },
    /// The backend was there and configured, and could not start.
    #[error("{backend}: {source}")]
    InitializationFailed {
        /// The backend that was chosen.
        backend: String,
        /// What the backend says.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Variables that the backend needs are not set.
    #[error("{backend}: not set: {}; set them, or start the ranks with comm-run, which does", .missing_vars.join(", "))]
    MissingConfiguration {
        /// The backend that was chosen.
        backend: String,
        /// Every variable that is missing.
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
