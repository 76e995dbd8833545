//! The kind of a failure, what it leaves unusable, and which argument was wrong.

use std::fmt;

/// Names what a fatal error leaves unusable, see [`CommError::fatal_to`](super::CommError::fatal_to).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scope {
    /// One handle to a region only.
    Region,
    /// The communicator, on all ranks.
    Communicator,
}

/// Names the kind of a [`CommError::CollectiveFailed`](super::CommError::CollectiveFailed).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// A rank died, or dropped its communicator, before it contributed.
    PeerLost,
    /// A rank is alive but did not enter the call within the timeout.
    TimedOut,
    /// The ranks called different things.
    Mismatch,
    /// A rank refused its arguments, or this rank is already inside another collective.
    Refused,
    /// A rank called `abort`.
    Aborted,
    /// A link between living ranks broke.
    Io,
    /// The MPI library reported an error.
    Mpi,
    /// The program failed by itself, see [`CommError::application`](super::CommError::application).
    Application,
}

impl FailureKind {
    /// Returns whether a failure of this kind leaves the communicator or region unusable: all except
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

/// Names the argument of a [`CommError::InvalidBufferSize`](super::CommError::InvalidBufferSize).
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
    /// Returns the name of the argument, as in the documentation of the method.
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
