//! A backend with several ranks, and the topology of its job.

use comm_api::{CommError, Communicator, Reduce, ReduceOp, ScalarKind};

use crate::forward::forward_to;
use crate::topology::{ExecutionTopology, TopologyProvider};

/// The communicator of a job that this process joined, and the topology of the job.
#[derive(Debug)]
pub struct Joined<C> {
    pub(crate) comm: C,
    pub(crate) topology: ExecutionTopology,
}

/// Communicates through MPI.
#[cfg(feature = "mpi")]
pub type FerrompiBackend = Joined<comm_factory::mpi::FerrompiBackend>;

/// Communicates through a shared segment on one machine.
#[cfg(feature = "shm")]
pub type ShmBackend = Joined<comm_factory::shm::ShmBackend>;

/// Communicates through sockets.
#[cfg(feature = "tcp")]
pub type TcpBackend = Joined<comm_factory::tcp::TcpBackend>;

impl<C: Communicator> Joined<C> {
    /// Returns the rank of this process, in `0..size()`.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.comm.size()
    }
}

impl<C: Send + Sync> TopologyProvider for Joined<C> {
    fn topology(&self) -> &ExecutionTopology {
        &self.topology
    }
}

macro_rules! inner {
    ($self:expr, $comm:ident => $body:expr) => {{
        let $comm = &$self.comm;
        $body
    }};
}

impl<C: Communicator> Communicator for Joined<C> {
    forward_to!(inner);
}
