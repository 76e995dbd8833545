//! Errors that end a run early, the same on every rank.

use comm_factory::BackendError;
use comm_factory::api::CommError;

/// The cause of a failed run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The communicator could not be created.
    #[error("{0}")]
    Backend(#[from] BackendError),
    /// A collective failed: another rank is gone, or the program is wrong.
    #[error("{0}")]
    Comm(#[from] CommError),
    /// A rank could not do its part and sent the reason to all others.
    #[error("rank {rank}: {reason}")]
    Rank { rank: u64, reason: String },
    /// Ranks that should have the same bits do not.
    #[error(
        "the ranks disagree on the lower bound ({low:e} and {high:e}); run the same program on machines with identical arithmetic"
    )]
    Disagree { low: f64, high: f64 },
}
