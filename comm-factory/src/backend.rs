//! The communicator that can be any backend: one match per call.

use comm_api::{
    Blocks, CommData, CommError, Communicator, Operation, ReduceOp, ScalarKind,
    SharedMemoryProvider,
};
#[cfg(any(feature = "mpi", feature = "shm"))]
use comm_kit::words;
use comm_local::LocalBackend;

use crate::name::Name;
use crate::region::CommRegion;

/// The communicator of the chosen backend.
///
/// It is an enum instead of a trait object: generic code is compiled for it once, and every call is a
/// match on a variant that never changes. Without any feature there is only one variant, and no match
/// is left.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are few of them, and they are rarely moved"
)]
pub enum CommBackend {
    /// An MPI library.
    #[cfg(feature = "mpi")]
    Mpi(comm_mpi::FerrompiBackend),
    /// TCP sockets.
    #[cfg(feature = "tcp")]
    Tcp(comm_tcp::TcpBackend),
    /// A shared segment on one machine.
    #[cfg(feature = "shm")]
    Shm(comm_shm::ShmBackend),
    /// A single process.
    Local(LocalBackend),
}

/// Matches once and calls the same method of the communicator.
macro_rules! each {
    ($self:expr, $comm:ident => $body:expr) => {
        match $self {
            #[cfg(feature = "mpi")]
            CommBackend::Mpi($comm) => $body,
            #[cfg(feature = "tcp")]
            CommBackend::Tcp($comm) => $body,
            #[cfg(feature = "shm")]
            CommBackend::Shm($comm) => $body,
            CommBackend::Local($comm) => $body,
        }
    };
}

/// Matches once and wraps the region of the communicator.
macro_rules! region {
    ($self:expr, $comm:ident => $body:expr) => {
        match $self {
            #[cfg(feature = "mpi")]
            CommBackend::Mpi($comm) => $body.map(CommRegion::Mpi),
            #[cfg(feature = "tcp")]
            CommBackend::Tcp($comm) => $body.map(CommRegion::Heap),
            #[cfg(feature = "shm")]
            CommBackend::Shm($comm) => $body.map(CommRegion::Shm),
            CommBackend::Local($comm) => $body.map(CommRegion::Heap),
        }
    };
}

impl CommBackend {
    /// Returns the name of the backend: `"shm"`, `"local"`, ..
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.backend().as_str()
    }

    pub(crate) fn backend(&self) -> Name {
        match self {
            #[cfg(feature = "mpi")]
            Self::Mpi(_) => Name::Mpi,
            #[cfg(feature = "tcp")]
            Self::Tcp(_) => Name::Tcp,
            #[cfg(feature = "shm")]
            Self::Shm(_) => Name::Shm,
            Self::Local(_) => Name::Local,
        }
    }
}

impl From<LocalBackend> for CommBackend {
    fn from(comm: LocalBackend) -> Self {
        Self::Local(comm)
    }
}

#[cfg(feature = "shm")]
impl From<comm_shm::ShmBackend> for CommBackend {
    fn from(comm: comm_shm::ShmBackend) -> Self {
        Self::Shm(comm)
    }
}

#[cfg(feature = "mpi")]
impl From<comm_mpi::FerrompiBackend> for CommBackend {
    fn from(comm: comm_mpi::FerrompiBackend) -> Self {
        Self::Mpi(comm)
    }
}

#[cfg(feature = "tcp")]
impl From<comm_tcp::TcpBackend> for CommBackend {
    fn from(comm: comm_tcp::TcpBackend) -> Self {
        Self::Tcp(comm)
    }
}

impl Communicator for CommBackend {
    #[inline]
    fn rank(&self) -> usize {
        each!(self, comm => comm.rank())
    }

    #[inline]
    fn size(&self) -> usize {
        each!(self, comm => comm.size())
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        each!(self, comm => comm.barrier())
    }

    fn abort(&self, code: i32) -> ! {
        each!(self, comm => comm.abort(code))
    }

    #[inline]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allgatherv_bytes(send, recv, from, elem_size))
    }

    #[inline]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allreduce_bytes(send, recv, scalar, op))
    }

    #[inline]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allreduce_in_place_bytes(buf, scalar, op))
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.broadcast_bytes(buf, elem_size, root))
    }

    fn refuse(&self, operation: Operation, error: &CommError) {
        each!(self, comm => comm.refuse(operation, error));
    }

    #[inline]
    fn allgatherv<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allgatherv(send, recv, counts, displs))
    }

    #[inline]
    fn allreduce<T: comm_api::Reduce>(
        &self,
        send: &[T],
        recv: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allreduce(send, recv, op))
    }

    #[inline]
    fn allreduce_in_place<T: comm_api::Reduce>(
        &self,
        buf: &mut [T],
        op: ReduceOp,
    ) -> Result<(), CommError> {
        each!(self, comm => comm.allreduce_in_place(buf, op))
    }

    #[inline]
    fn broadcast<T: CommData>(&self, buf: &mut [T], root: usize) -> Result<(), CommError> {
        each!(self, comm => comm.broadcast(buf, root))
    }
}

impl SharedMemoryProvider for CommBackend {
    type Region<T: CommData> = CommRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<CommRegion<T>, CommError> {
        region!(self, comm => comm.create_shared_region(count))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<CommRegion<T>, CommError> {
        region!(self, comm => comm.create_partitioned_region(local_count))
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<CommRegion<T>, CommError> {
        region!(self, comm => comm.create_gathered_region(local_count))
    }

    #[inline]
    fn exchange<T: CommData>(&self, region: &mut CommRegion<T>) -> Result<(), CommError> {
        match (self, region) {
            #[cfg(feature = "mpi")]
            (Self::Mpi(comm), CommRegion::Mpi(region)) => comm.exchange(region),
            #[cfg(feature = "tcp")]
            (Self::Tcp(comm), CommRegion::Heap(region)) => comm.exchange(region),
            #[cfg(feature = "shm")]
            (Self::Shm(comm), CommRegion::Shm(region)) => comm.exchange(region),
            (Self::Local(comm), CommRegion::Heap(region)) => comm.exchange(region),
            #[cfg(any(feature = "mpi", feature = "shm"))]
            _ => {
                let error = words::foreign_region(self.rank());
                self.refuse(Operation::Exchange, &error);
                Err(error.here())
            }
        }
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        each!(self, comm => comm.split_local())
    }

    fn is_leader(&self) -> bool {
        each!(self, comm => comm.is_leader())
    }
}
