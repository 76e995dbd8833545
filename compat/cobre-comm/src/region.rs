//! Memory that the ranks of one node share, behind the names of 0.18.
//!
//! A slice may outlive `fence(&self)`, and nothing can detect that. So that no rank reads memory while another writes it, a
//! region is written once: the first fence freezes it.

use std::fmt;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use comm_factory::local::LocalBackend;

use crate::communicator::CommData;
use crate::error::CommError;

/// A communicator of the ranks of one node; object-safe.
pub trait LocalCommunicator: Send + Sync {
    /// Returns the rank on this node, in `0..size()`.
    fn rank(&self) -> usize;

    /// Returns the number of ranks on this node.
    fn size(&self) -> usize;

    /// Waits until every rank of the node has called it.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn barrier(&self) -> Result<(), CommError>;
}

/// Grants access to a region: written by the leader of the node, then read by all of its ranks.
pub trait SharedRegion<T: CommData>: Send + Sync {
    /// Returns the whole region after its first fence.
    ///
    /// # Panics
    ///
    /// A [`HeapRegion`] panics before its first fence, and if that fence failed.
    #[track_caller]
    fn as_slice(&self) -> &[T];

    /// Returns the part that this rank may write before the first fence: everything on the leader, nothing on other ranks.
    ///
    /// # Panics
    ///
    /// A [`HeapRegion`] panics after its first fence, even if that fence failed.
    #[track_caller]
    fn as_mut_slice(&mut self) -> &mut [T];

    /// Waits for the ranks of the node; after the first fence all ranks see what the leader wrote.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`], naming the rank, if a rank died or dropped its handle.
    #[track_caller]
    fn fence(&self) -> Result<(), CommError>;
}

/// Creates regions that the ranks of one node share, and communicators of these ranks.
pub trait SharedMemoryProvider: Send + Sync {
    /// The handle of one rank to a region.
    type Region<T: CommData>: SharedRegion<T>;

    /// Creates a region of `count` zeroed elements that the leader writes; collective over the node.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`], on all ranks of the node or none, if there is not enough memory.
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn create_shared_region<T: CommData>(&self, count: usize)
    -> Result<Self::Region<T>, CommError>;

    /// Creates a communicator of the ranks on this node; collective over the node.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn split_local(&self) -> Result<LocalCommKind, CommError>;

    /// Returns whether this rank writes the regions of its node.
    fn is_leader(&self) -> bool;
}

/// A region of any backend: one copy per node with `shm` and `mpi`, otherwise one per rank.
///
/// ```should_panic
/// use cobre_comm::{LocalBackend, SharedMemoryProvider, SharedRegion};
///
/// let mut region = LocalBackend.create_shared_region::<f64>(4).unwrap();
/// region.as_mut_slice().fill(0.5);
/// region.fence().unwrap();
/// assert_eq!(region.as_slice(), [0.5; 4]);
/// region.as_mut_slice(); // written once: panics
/// ```
pub struct HeapRegion<T: CommData> {
    /// Until the first fence.
    writing: Mutex<Option<Handle<T>>>,
    /// From the first fence on.
    frozen: OnceLock<Handle<T>>,
    /// An empty region: its fences are barriers of the node that do not change the phase of the other region.
    meeting: Mutex<Handle<u8>>,
}

type Handle<T> = Box<dyn comm_api::SharedRegion<T>>;

impl<T: CommData> HeapRegion<T> {
    #[track_caller]
    pub(crate) fn create<
        P: comm_api::SharedMemoryProvider<Region<T>: 'static, Region<u8>: 'static>,
    >(
        provider: &P,
        count: usize,
    ) -> Result<Self, CommError> {
        let region = provider.create_shared_region::<T>(count)?;
        let meeting = provider.create_shared_region::<u8>(0)?;
        Ok(Self {
            writing: Mutex::new(Some(Box::new(region))),
            frozen: OnceLock::new(),
            meeting: Mutex::new(Box::new(meeting)),
        })
    }
}

/// Locks even after a panic of another thread, which cannot leave the contents inconsistent.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<T: CommData> SharedRegion<T> for HeapRegion<T> {
    fn as_slice(&self) -> &[T] {
        let region = self.frozen.get();
        let region = region.expect(
            "this region was not fenced, or its first fence failed; call fence on every rank of the node before as_slice, \
             and create another region if it returns an error",
        );
        region.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        let writing = self.writing.get_mut();
        let writing = writing.unwrap_or_else(PoisonError::into_inner).as_mut();
        let region = writing.expect(
            "this region was fenced, and a region can be written once; create another one for new contents",
        );
        region.as_mut_slice()
    }

    fn fence(&self) -> Result<(), CommError> {
        let mut writing = lock(&self.writing);
        let Some(region) = writing.as_mut() else {
            drop(writing);
            return Ok(lock(&self.meeting).fence()?);
        };
        region.fence()?;
        if let Some(region) = writing.take() {
            // Set only here: under the lock, when the region is taken.
            let _ = self.frozen.set(region);
        }
        Ok(())
    }
}

impl<T: CommData> fmt::Debug for HeapRegion<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_frozen = self.frozen.get().is_some();
        let mut debug = f.debug_struct("HeapRegion");
        debug.field("is_frozen", &is_frozen).finish_non_exhaustive()
    }
}

/// The communicator of the ranks of one node that truly share its memory.
pub struct NodeComm(pub(crate) Box<dyn comm_api::Communicator>);

/// The communicator of the ranks of one node under MPI.
#[cfg(feature = "mpi")]
pub type FerrompiLocalComm = NodeComm;

impl LocalCommunicator for NodeComm {
    fn rank(&self) -> usize {
        self.0.rank()
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        Ok(self.0.barrier()?)
    }
}

impl fmt::Debug for NodeComm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeComm(rank {} of {})", self.0.rank(), self.0.size())
    }
}

/// The communicator of a node, of any backend.
#[derive(Debug)]
pub enum LocalCommKind {
    /// A rank that does not share its memory.
    Local(LocalBackend),
    /// The ranks of a node under MPI.
    #[cfg(feature = "mpi")]
    Ferrompi(NodeComm),
    /// The ranks of a machine.
    #[cfg(feature = "shm")]
    Shm(NodeComm),
}

impl LocalCommKind {
    fn inner(&self) -> &dyn LocalCommunicator {
        match self {
            Self::Local(comm) => comm,
            #[cfg(feature = "mpi")]
            Self::Ferrompi(comm) => comm,
            #[cfg(feature = "shm")]
            Self::Shm(comm) => comm,
        }
    }
}

impl LocalCommunicator for LocalCommKind {
    fn rank(&self) -> usize {
        self.inner().rank()
    }

    fn size(&self) -> usize {
        self.inner().size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.inner().barrier()
    }
}

impl LocalCommunicator for LocalBackend {
    fn rank(&self) -> usize {
        0
    }

    fn size(&self) -> usize {
        1
    }

    fn barrier(&self) -> Result<(), CommError> {
        Ok(())
    }
}
