//! Memory that the ranks of one node share.

use std::sync::Arc;

use crate::communicator::Communicator;
use crate::element::CommData;
use crate::error::CommError;

/// Creates regions that the ranks of one node share, and knows which ranks are on the node.
///
/// | region | holds | its write phase ends with |
/// |---|---|---|
/// | [shared](Self::create_shared_region) | what the leader of the node writes | [`fence`](SharedRegion::fence), on the node |
/// | [partitioned](Self::create_partitioned_region) | a part of each rank of the node | [`fence`](SharedRegion::fence), on the node |
/// | [gathered](Self::create_gathered_region) | a part of each rank of the job | [`exchange`](Self::exchange), in the whole job |
///
/// A backend with truly shared memory keeps one copy per node. A backend without it keeps a copy per
/// rank, and every rank leads its own node. A program written for both lets the leader (or every rank
/// of [`split_local`](Self::split_local) its part) populate a region, calls
/// [`fence`](SharedRegion::fence), and reads.
///
/// | | heap (local, tcp) | truly shared (shm, mpi) |
/// |---|---|---|
/// | [`is_leader`](Self::is_leader) | always true | local rank 0 only |
/// | [`split_local`](Self::split_local) | size 1 | all ranks of this node |
/// | memory for R ranks | R copies | one copy, for any R |
///
/// ```
/// use comm_api::{CommError, SharedMemoryProvider, SharedRegion};
///
/// fn table<C: SharedMemoryProvider>(comm: &C) -> Result<f64, CommError> {
///     let mut region = comm.create_shared_region::<f64>(3)?;
///     if comm.is_leader() {
///         region.as_mut_slice().copy_from_slice(&[1.0, 2.0, 3.0]);
///     }
///     region.fence()?;
///     Ok(region.as_slice().iter().sum())
/// }
///
/// # fn main() -> Result<(), CommError> {
/// assert_eq!(table(&comm_local::LocalBackend)?, 6.0);
/// # Ok(())
/// # }
/// ```
pub trait SharedMemoryProvider: Send + Sync {
    /// The handle of one rank to a region.
    type Region<T: CommData>: SharedRegion<T>;

    /// Creates a region of `count` zeroed elements that the leader owns.
    ///
    /// Collective over the node; every rank passes the same `count`. Zero is fine.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`], on all ranks of the node or none, if there is no room or
    /// the region would exceed `isize::MAX` bytes. [`CommError::CollectiveFailed`] if the ranks
    /// cannot complete it together.
    #[track_caller]
    fn create_shared_region<T: CommData>(&self, count: usize)
    -> Result<Self::Region<T>, CommError>;

    /// Creates a region of which this rank owns a part of `local_count` zeroed elements.
    ///
    /// Collective over the node; the parts may differ in length and lie in local-rank order.
    ///
    /// # Errors
    ///
    /// As [`create_shared_region`](Self::create_shared_region).
    #[track_caller]
    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<Self::Region<T>, CommError>;

    /// Creates a region over all ranks of the job; this rank owns a part of `local_count` zeroed elements, parts lie in rank
    /// order.
    ///
    /// A gathered region holds once per node what an `allgatherv` copies to every rank: each rank writes its part in place, and
    /// [`exchange`](Self::exchange) makes the parts of all ranks visible to all. On one machine with truly shared memory nothing
    /// is copied, whatever the size.
    ///
    /// Collective over the job, in the sequence of this communicator; the parts may differ in length, zero is fine.
    ///
    /// # Errors
    ///
    /// [`CommError::AllocationFailed`], on all ranks of the job or none, if there is no room on some rank or the region would
    /// exceed `isize::MAX` bytes. [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<Self::Region<T>, CommError>;

    /// Ends the write phase of a gathered region on every rank of the job; afterwards all ranks can read what any rank wrote.
    ///
    /// ```text
    ///         write phase                exchange     read phase            fence
    /// rank 0  as_mut_slice() [a b]  ────────┤   as_slice() [a b c d e] ──────┤   write ..
    /// rank 1  as_mut_slice() [c]    ────────┤   as_slice() [a b c d e] ──────┤   write ..
    /// rank 2  as_mut_slice() [d e]  ────────┤   as_slice() [a b c d e] ──────┤   write ..
    /// ```
    ///
    /// # Contract
    ///
    /// A collective of this communicator, like a barrier, and in the same sequence: no rank leaves before all have entered.
    /// All ranks exchange the same region. [`fence`](SharedRegion::fence) ends the read phase, on the node; contents persist, so a
    /// rank that changes a few elements of its part writes only those.
    ///
    /// ```
    /// use comm_api::{CommError, Communicator, SharedMemoryProvider, SharedRegion};
    ///
    /// /// Every rank contributes as many points as its rank, plus one.
    /// fn points<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<f64, CommError> {
    ///     let mut points = comm.create_gathered_region::<f64>(comm.rank() + 1)?;
    ///     for iteration in 0..3 {
    ///         points.as_mut_slice().fill(f64::from(iteration));
    ///         comm.exchange(&mut points)?; // instead of an allgatherv
    ///         assert!(points.as_slice().iter().all(|x| *x == f64::from(iteration)));
    ///         points.fence()?;
    ///     }
    ///     comm.exchange(&mut points)?;
    ///     Ok(points.as_slice().iter().sum())
    /// }
    ///
    /// # fn main() -> Result<(), CommError> {
    /// assert_eq!(points(&comm_local::LocalBackend)?, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Refused`](crate::FailureKind::Refused), on all ranks, if a rank passed a region that is in its read phase, that is not
    /// gathered, or that another communicator created: the phase is unchanged and the handle usable.
    ///
    /// Any other [`CommError::CollectiveFailed`] is fatal: [`Mismatch`](crate::FailureKind::Mismatch) if ranks exchange different
    /// regions or call something else, [`PeerLost`](crate::FailureKind::PeerLost) if a rank died. The handle is then broken, and
    /// the communicator is no longer usable. A rank that dropped its handle has skipped a collective: the others wait for it, or
    /// find that it calls something else.
    #[track_caller]
    fn exchange<T: CommData>(&self, region: &mut Self::Region<T>) -> Result<(), CommError>;

    /// Creates a communicator of the ranks on this node, with a sequence of its own.
    ///
    /// Collective over the node, and for start-up only: the result is a trait object. Work on a
    /// region is divided by its size, not by that of the whole communicator.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`] if the ranks cannot complete it together.
    #[track_caller]
    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError>;

    /// Returns whether this rank owns the regions of
    /// [`create_shared_region`](Self::create_shared_region).
    fn is_leader(&self) -> bool;
}

/// Grants access to a region, in phases that exclude data races in safe code.
///
/// # Contract
///
/// A region alternates between a write phase, in which it starts, zeroed, and a read phase.
/// [`fence`](Self::fence) ends the phase on every rank of the node; it takes `&mut self`, so no
/// slice of the old phase can still be borrowed. Contents persist from phase to phase.
///
/// ```text
///              write phase               fence        read phase           fence
/// leader   as_mut_slice() [x y z] ─────────┤   as_slice() [x y z] ───────────┤   write ..
/// follower as_mut_slice() []      ─────────┤   as_slice() [x y z] ───────────┤   write ..
/// ```
///
/// The write phase of a [gathered](SharedMemoryProvider::create_gathered_region) region ends with
/// [`exchange`](SharedMemoryProvider::exchange), and only its read phase with a fence.
///
/// Fences of two regions are independent of each other and of collectives. A region works after
/// its communicator is gone, any drop order is safe, and no drop waits for another rank.
///
/// ```should_panic
/// # use comm_api::{SharedMemoryProvider, SharedRegion};
/// let region = comm_local::LocalBackend.create_shared_region::<u8>(4).unwrap();
/// region.as_slice(); // still in the write phase: panics, naming `fence`
/// ```
pub trait SharedRegion<T: CommData>: Send + Sync {
    /// Returns the whole region, zero-copy, in a read phase.
    ///
    /// # Panics
    ///
    /// In a write phase, and after a fence or an exchange that failed.
    #[track_caller]
    fn as_slice(&self) -> &[T];

    /// Returns the part this rank owns, in a write phase.
    ///
    /// In a shared region the leader owns everything and a follower nothing; in a partitioned or
    /// gathered one every rank owns its part.
    ///
    /// # Panics
    ///
    /// In a read phase, and after a fence or an exchange that failed.
    #[track_caller]
    fn as_mut_slice(&mut self) -> &mut [T];

    /// Ends the phase on every rank of the node: what was written before it can be read after it.
    ///
    /// # Errors
    ///
    /// [`CommError::CollectiveFailed`], naming the rank, if a rank died or dropped its handle.
    /// The handle is broken then: its accessors panic, its drop is clean, and the communicator it
    /// came from stays usable; [`fatal_to`](CommError::fatal_to) says [`Region`](crate::Scope::Region).
    ///
    /// [`Refused`](crate::FailureKind::Refused) in the write phase of a gathered region: nothing was
    /// sent, and the handle is unchanged.
    #[track_caller]
    fn fence(&mut self) -> Result<(), CommError>;
}

macro_rules! forward {
    ($($pointer:ty),+) => {$(
        impl<C: SharedMemoryProvider + ?Sized> SharedMemoryProvider for $pointer {
            type Region<T: CommData> = C::Region<T>;

            #[inline]
            fn create_shared_region<T: CommData>(
                &self,
                count: usize,
            ) -> Result<Self::Region<T>, CommError> {
                (**self).create_shared_region(count)
            }

            #[inline]
            fn create_partitioned_region<T: CommData>(
                &self,
                local_count: usize,
            ) -> Result<Self::Region<T>, CommError> {
                (**self).create_partitioned_region(local_count)
            }

            #[inline]
            fn create_gathered_region<T: CommData>(
                &self,
                local_count: usize,
            ) -> Result<Self::Region<T>, CommError> {
                (**self).create_gathered_region(local_count)
            }

            #[inline]
            fn exchange<T: CommData>(&self, region: &mut Self::Region<T>) -> Result<(), CommError> {
                (**self).exchange(region)
            }

            #[inline]
            fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
                (**self).split_local()
            }

            #[inline]
            fn is_leader(&self) -> bool {
                (**self).is_leader()
            }
        }
    )+};
}

forward!(&C, Arc<C>);
