//! The region that can be of any backend.

use comm_api::{CommData, CommError, SharedRegion};
use comm_local::HeapRegion;

/// The region of the chosen backend.
#[derive(Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "there are few of them, and they are rarely moved"
)]
pub enum CommRegion<T: CommData> {
    /// Memory of this rank only: local and tcp.
    Heap(HeapRegion<T>),
    /// Memory of all ranks of the machine.
    #[cfg(feature = "shm")]
    Shm(comm_shm::ShmRegion<T>),
    /// Memory of all ranks of the node, shared through MPI.
    #[cfg(feature = "mpi")]
    Mpi(comm_mpi::FerrompiRegion<T>),
}

macro_rules! each {
    ($self:expr, $region:ident => $body:expr) => {
        match $self {
            CommRegion::Heap($region) => $body,
            #[cfg(feature = "shm")]
            CommRegion::Shm($region) => $body,
            #[cfg(feature = "mpi")]
            CommRegion::Mpi($region) => $body,
        }
    };
}

impl<T: CommData> SharedRegion<T> for CommRegion<T> {
    #[inline]
    fn as_slice(&self) -> &[T] {
        each!(self, region => region.as_slice())
    }

    #[inline]
    fn as_mut_slice(&mut self) -> &mut [T] {
        each!(self, region => region.as_mut_slice())
    }

    #[inline]
    fn fence(&mut self) -> Result<(), CommError> {
        each!(self, region => region.fence())
    }
}
