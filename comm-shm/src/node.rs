//! For backends that communicate over another transport: memory shared by the ranks of a node.
//!
//! Not part of the documented interface: it may change with any version.

use std::ops::Range;

use comm_api::{CommData, CommError, SharedMemoryProvider};
use comm_kit::{CommId, Origin};

use crate::communicator::ShmBackend;
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::region::{self, ShmRegion};

/// Creates regions for the ranks of a node; has no collectives.
///
/// Without slots for payloads, the segment has only a few pages per rank.
#[derive(Debug)]
pub struct NodeRegions(ShmBackend);

impl NodeRegions {
    /// Joins the other ranks of the node; collective over them.
    ///
    /// # Errors
    ///
    /// As [`ShmBackend::attach`].
    pub fn attach(config: ShmConfig) -> Result<Self, InitError> {
        Ok(Self(ShmBackend::with_slots(config, 0)?))
    }

    /// Creates a region that the leader owns.
    ///
    /// # Errors
    ///
    /// As [`SharedMemoryProvider::create_shared_region`].
    #[track_caller]
    pub fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.0.create_shared_region(count)
    }

    /// Creates a region of which this rank owns a part.
    ///
    /// # Errors
    ///
    /// As [`SharedMemoryProvider::create_partitioned_region`].
    #[track_caller]
    pub fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.0.create_partitioned_region(local_count)
    }

    /// Creates this node's memory for a gathered region of `len` elements, of which this rank owns `own`. The
    /// job has agreed on the parts and the origin.
    ///
    /// # Errors
    ///
    /// As [`SharedMemoryProvider::create_gathered_region`], for this node.
    #[track_caller]
    pub fn create_gathered_region<T: CommData>(
        &self,
        len: usize,
        own: Range<usize>,
        origin: Origin,
    ) -> Result<ShmRegion<T>, CommError> {
        region::of_a_job(self.0.sequence(), len, own, origin)
    }
}

/// Checks that `communicator` can exchange a gathered region, on `rank` of the job, and returns the number of
/// the region.
///
/// # Errors
///
/// As [`SharedMemoryProvider::exchange`] if it cannot; nothing was sent.
pub fn check_exchange<T: CommData>(
    region: &ShmRegion<T>,
    communicator: CommId,
    rank: usize,
) -> Result<u64, CommError> {
    region.check_exchange(communicator, rank)
}

/// Ends the write phase of a gathered region on this node, once the job has agreed on it. If there are other
/// nodes, `bring` fetches their parts: between two meetings of the node, rank 0 of the node has exclusive
/// access to the whole region.
///
/// # Errors
///
/// If a rank of the node is lost, or `bring` failed. The handle is then broken.
#[track_caller]
pub fn exchange<T: CommData>(
    region: &mut ShmRegion<T>,
    number: u64,
    bring: Option<impl FnOnce(&mut [T]) -> Result<(), CommError>>,
) -> Result<(), CommError> {
    region.exchange_in_node(number, bring)
}

/// Breaks the handle to a gathered region permanently, because the job failed before its nodes met.
pub fn fail<T: CommData>(region: &mut ShmRegion<T>, cause: &CommError) {
    region.fail(cause);
}

#[cfg(test)]
mod tests;
