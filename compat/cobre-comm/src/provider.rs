//! The providers of regions: all backends.

use comm_api::SharedMemoryProvider as Provider;
use comm_factory::local::LocalBackend;

use crate::backend::CommBackend;
use crate::communicator::CommData;
use crate::error::CommError;
use crate::region::{HeapRegion, LocalCommKind, SharedMemoryProvider};

/// Implements the provider of 0.18 with that of `comm-api`.
macro_rules! provider {
    ($type:ty, $self:ident => $comm:expr, $split:expr) => {
        impl SharedMemoryProvider for $type {
            type Region<T: CommData> = HeapRegion<T>;

            fn create_shared_region<T: CommData>(
                &$self,
                count: usize,
            ) -> Result<HeapRegion<T>, CommError> {
                HeapRegion::create($comm, count)
            }

            fn split_local(&$self) -> Result<LocalCommKind, CommError> {
                let comm = Provider::split_local($comm)?;
                Ok($split(comm))
            }

            fn is_leader(&$self) -> bool {
                Provider::is_leader($comm)
            }
        }
    };
}

/// A rank that does not share its memory needs no communicator for its node.
fn alone(_: Box<dyn comm_api::Communicator>) -> LocalCommKind {
    LocalCommKind::Local(LocalBackend)
}

provider!(LocalBackend, self => self, alone);
#[cfg(feature = "tcp")]
provider!(crate::TcpBackend, self => &self.comm, alone);
#[cfg(feature = "shm")]
provider!(crate::ShmBackend, self => &self.comm, |comm| LocalCommKind::Shm(crate::NodeComm(comm)));
#[cfg(feature = "mpi")]
provider!(crate::FerrompiBackend, self => &self.comm, |comm| LocalCommKind::Ferrompi(crate::NodeComm(comm)));

/// Matches once and calls the same method of the provider.
macro_rules! each {
    ($self:expr, $comm:ident => $body:expr) => {
        match $self {
            #[cfg(feature = "mpi")]
            CommBackend::Mpi(joined) => {
                let $comm = &**joined;
                $body
            }
            #[cfg(feature = "tcp")]
            CommBackend::Tcp(joined) => {
                let $comm = &**joined;
                $body
            }
            #[cfg(feature = "shm")]
            CommBackend::Shm(joined) => {
                let $comm = &**joined;
                $body
            }
            CommBackend::Local($comm) => $body,
        }
    };
}

impl SharedMemoryProvider for CommBackend {
    type Region<T: CommData> = HeapRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        each!(self, comm => SharedMemoryProvider::create_shared_region(comm, count))
    }

    fn split_local(&self) -> Result<LocalCommKind, CommError> {
        each!(self, comm => SharedMemoryProvider::split_local(comm))
    }

    fn is_leader(&self) -> bool {
        each!(self, comm => SharedMemoryProvider::is_leader(comm))
    }
}
