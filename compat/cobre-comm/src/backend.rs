//! The communicator that can be of any backend, and how a program gets it.

use comm_api::{CommError, Communicator, Reduce, ReduceOp, ScalarKind};
use comm_factory::local::LocalBackend;

use crate::error::BackendError;
use crate::forward::forward_to;
#[cfg(any(feature = "mpi", feature = "shm", feature = "tcp"))]
use crate::joined::Joined;
use crate::kind::BackendKind;
use crate::topology::{ExecutionTopology, TopologyProvider};

/// The communicator of the chosen backend.
///
/// 0.18 has this type only with the feature `mpi`, and with two variants.
#[derive(Debug)]
pub enum CommBackend {
    /// An MPI library.
    #[cfg(feature = "mpi")]
    Mpi(Box<crate::FerrompiBackend>),
    /// TCP sockets.
    #[cfg(feature = "tcp")]
    Tcp(Box<crate::TcpBackend>),
    /// A shared segment on one machine.
    #[cfg(feature = "shm")]
    Shm(Box<crate::ShmBackend>),
    /// A single process.
    Local(LocalBackend),
}

/// Matches once and calls the same method of the communicator.
macro_rules! each {
    ($self:expr, $comm:ident => $body:expr) => {
        match $self {
            #[cfg(feature = "mpi")]
            CommBackend::Mpi(joined) => {
                let $comm = &joined.comm;
                $body
            }
            #[cfg(feature = "tcp")]
            CommBackend::Tcp(joined) => {
                let $comm = &joined.comm;
                $body
            }
            #[cfg(feature = "shm")]
            CommBackend::Shm(joined) => {
                let $comm = &joined.comm;
                $body
            }
            CommBackend::Local($comm) => $body,
        }
    };
}

impl Communicator for CommBackend {
    forward_to!(each);
}

impl TopologyProvider for CommBackend {
    fn topology(&self) -> &ExecutionTopology {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(joined) => &joined.topology,
            #[cfg(feature = "tcp")]
            Self::Tcp(joined) => &joined.topology,
            #[cfg(feature = "shm")]
            Self::Shm(joined) => &joined.topology,
            Self::Local(comm) => comm.topology(),
        }
    }
}

impl CommBackend {
    /// Returns the name of the backend: `"shm"`, `"local"`, ..
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(_) => "mpi",
            #[cfg(feature = "tcp")]
            Self::Tcp(_) => "tcp",
            #[cfg(feature = "shm")]
            Self::Shm(_) => "shm",
            Self::Local(_) => "local",
        }
    }
}

/// Creates the communicator that `kind` selects, and gathers the topology; collective over all ranks.
///
/// # Errors
///
/// See the variants of [`BackendError`].
///
/// ```
/// use cobre_comm::{BackendKind, Communicator, create_communicator};
///
/// # fn main() -> Result<(), cobre_comm::BackendError> {
/// let comm = create_communicator(BackendKind::Local)?;
/// assert_eq!((comm.rank(), comm.size()), (0, 1));
/// # Ok(())
/// # }
/// ```
pub fn create_communicator(kind: BackendKind) -> Result<CommBackend, BackendError> {
    use comm_factory::{BackendKind as Kind, CommBackend as Chosen};
    let kind = match kind {
        BackendKind::Auto => Kind::Auto,
        BackendKind::Mpi => Kind::Mpi,
        BackendKind::Local => Kind::Local,
    };
    let comm = comm_factory::create_communicator_with(kind)?;
    #[cfg(any(feature = "mpi", feature = "shm", feature = "tcp"))]
    let topology = topology(&comm)?;
    Ok(match comm {
        #[cfg(feature = "mpi")]
        Chosen::Mpi(comm) => CommBackend::Mpi(Box::new(Joined { comm, topology })),
        #[cfg(feature = "tcp")]
        Chosen::Tcp(comm) => CommBackend::Tcp(Box::new(Joined { comm, topology })),
        #[cfg(feature = "shm")]
        Chosen::Shm(comm) => CommBackend::Shm(Box::new(Joined { comm, topology })),
        Chosen::Local(comm) => CommBackend::Local(comm),
    })
}

#[cfg(any(feature = "mpi", feature = "shm", feature = "tcp"))]
fn topology(comm: &comm_factory::CommBackend) -> Result<ExecutionTopology, BackendError> {
    let topology = comm.topology().map(Into::into);
    topology.map_err(|error| BackendError::InitializationFailed {
        backend: comm.name().to_owned(),
        source: Box::new(error),
    })
}

#[cfg(feature = "mpi")]
impl crate::FerrompiBackend {
    /// Initialises MPI and joins the job that its launcher started; collective over all ranks.
    ///
    /// # Errors
    ///
    /// [`BackendError::InitializationFailed`] if MPI cannot be initialised, or was already initialised in this process.
    pub fn new() -> Result<Self, BackendError> {
        let CommBackend::Mpi(joined) = create_communicator(BackendKind::Mpi)? else {
            unreachable!("MPI was requested");
        };
        Ok(*joined)
    }
}
