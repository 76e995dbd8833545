//! What a program can ask for: a backend, an operation.

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
    /// What the environment says, as `comm_factory::select` decides: MPI, TCP, shared memory, or this process alone.
    Auto,
    /// MPI and nothing else: an error where `comm-run` started the ranks for shared memory or TCP.
    Mpi,
    /// This process alone.
    Local,
}

/// Names an element-wise reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReduceOp {
    /// Adds, in rank order.
    Sum,
    /// Takes the smaller.
    Min,
    /// Takes the larger.
    Max,
    /// Or of the bits, of integers only.
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
