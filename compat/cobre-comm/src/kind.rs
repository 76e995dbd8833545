//! The backends and operations that a program can ask for.

/// Which backend a program asks for.
///
/// The three of 0.18. Shared memory and TCP are found by [`Auto`](Self::Auto): `comm-run` starts ranks for them, and
/// `COBRE_COMM_BACKEND` names one.
///
/// ```
/// use cobre_comm::BackendKind;
///
/// let kind = BackendKind::Local;
/// assert_eq!(kind, BackendKind::Local);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BackendKind {
    /// The backend that `comm_factory::select` chooses from the environment: MPI, TCP, shared memory, or a single process.
    Auto,
    /// MPI only: an error if `comm-run` started the ranks for shared memory or TCP.
    Mpi,
    /// A single process.
    Local,
}

/// An element-wise reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Adds, in rank order.
    Sum,
    /// Takes the smaller.
    Min,
    /// Takes the larger.
    Max,
    /// Bitwise or, only for integers.
    BitwiseOr,
}

impl From<ReduceOp> for comm_api::ReduceOp {
    #[inline]
    fn from(op: ReduceOp) -> Self {
        match op {
            ReduceOp::Sum => Self::Sum,
            ReduceOp::Min => Self::Min,
            ReduceOp::Max => Self::Max,
            ReduceOp::BitwiseOr => Self::BitwiseOr,
        }
    }
}

/// Lists the names of the backends that are compiled in, best first.
///
/// ```
/// let names = cobre_comm::available_backends();
/// assert_eq!(names.last().map(String::as_str), Some("local"));
/// ```
#[must_use]
pub fn available_backends() -> Vec<String> {
    let names = comm_factory::available_backends().iter();
    names.map(ToString::to_string).collect()
}
