//! Regions: one copy of a table for all ranks of a node.

use std::sync::Arc;

use comm_api::{
    CommData, CommError, Communicator, Operation, SharedMemoryProvider, SharedRegion, check,
};
use comm_kit::Call;
use comm_shm::ShmRegion;
use comm_shm::node::NodeRegions;

use crate::communicator::FerrompiBackend;
use crate::entry::Scope;
use crate::gathered::Spread;

/// One rank's handle to memory that all ranks of its node share.
///
/// Made by [`create_shared_region`](SharedMemoryProvider::create_shared_region),
/// [`create_partitioned_region`](SharedMemoryProvider::create_partitioned_region) and
/// [`create_gathered_region`](SharedMemoryProvider::create_gathered_region) of
/// [`FerrompiBackend`]. The memory and the fences are those of `comm-shm`, not an MPI window: a handle can be
/// dropped independently of the other ranks, a rank that dropped its handle or died is an error of the
/// others' next fence, and a region works after MPI was finalized.
#[derive(Debug)]
pub struct FerrompiRegion<T> {
    pub(crate) memory: ShmRegion<T>,
    /// The world rank of each rank of the node.
    pub(crate) world: Arc<[usize]>,
    /// The layout of a gathered region across the nodes; `None` with a single node.
    pub(crate) spread: Option<Spread>,
    /// Why an exchange broke the handle; the memory stores the same error with ranks of the node.
    pub(crate) failed: Option<CommError>,
}

impl<T: CommData> SharedRegion<T> for FerrompiRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.memory.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.memory.as_mut_slice()
    }

    fn fence(&mut self) -> Result<(), CommError> {
        if let Some(cause) = &self.failed {
            return Err(cause.again("fence"));
        }
        self.memory
            .fence()
            .map_err(|error| in_the_world(error, &self.world))
    }
}

/// Replaces the blamed rank of the node by its world rank.
#[cold]
pub(crate) fn in_the_world(mut error: CommError, world: &[usize]) -> CommError {
    if let CommError::CollectiveFailed { rank, .. } = &mut error {
        *rank = rank.and_then(|local| world.get(local).copied());
    }
    error
}

impl FerrompiBackend {
    #[track_caller]
    fn region<T: CommData>(
        &self,
        operation: Operation,
        call: Call,
        create: impl FnOnce(&NodeRegions) -> Result<ShmRegion<T>, CommError>,
    ) -> Result<FerrompiRegion<T>, CommError> {
        let (mut pass, inside) = self.ranks.enter(operation, call, Scope::Node)?;
        drop(inside);
        let world = self.node.world();
        match self.in_memory(operation, create) {
            Ok(memory) => Ok(FerrompiRegion {
                memory,
                world: Arc::clone(world),
                spread: None,
                failed: None,
            }),
            Err(error) => {
                self.end_if_unheard(&error);
                Err(pass.fail(error))
            }
        }
    }

    /// Creates something in the memory of this node; errors name world ranks.
    #[track_caller]
    pub(crate) fn in_memory<R>(
        &self,
        operation: Operation,
        create: impl FnOnce(&NodeRegions) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        let created = self.node.region(operation, create);
        // It was created in a closure, which is not where the program made the call.
        created.map_err(|error| in_the_world(error.placeless(), self.node.world()))
    }

    /// Ends the job if this node failed fatally: the ranks of other nodes do not learn of it, and may wait
    /// for this one.
    pub(crate) fn end_if_unheard(&self, error: &CommError) {
        if error.is_fatal() && self.has_other_nodes() {
            self.ranks.life().end().fail();
        }
    }

    pub(crate) fn has_other_nodes(&self) -> bool {
        self.node.world().len() < self.ranks.size
    }
}

impl SharedMemoryProvider for FerrompiBackend {
    type Region<T: CommData> = FerrompiRegion<T>;

    fn create_shared_region<T: CommData>(
        &self,
        count: usize,
    ) -> Result<FerrompiRegion<T>, CommError> {
        let call = Call::shared_region(count, size_of::<T>());
        self.region(Operation::CreateSharedRegion, call, |node| {
            node.create_shared_region(count)
        })
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<FerrompiRegion<T>, CommError> {
        let call = Call::partitioned_region(size_of::<T>());
        self.region(Operation::CreatePartitionedRegion, call, |node| {
            node.create_partitioned_region(local_count)
        })
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<FerrompiRegion<T>, CommError> {
        check::placed(self.gathered(local_count))
    }

    fn exchange<T: CommData>(&self, region: &mut FerrompiRegion<T>) -> Result<(), CommError> {
        self.exchange_region(region)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        let call = Call::split_local();
        let (mut pass, inside) = self.ranks.enter(Operation::SplitLocal, call, Scope::Node)?;
        drop(inside);
        self.node
            .split()
            .map_err(|error| pass.fail(error.placeless()))
    }

    fn is_leader(&self) -> bool {
        self.node.is_leader()
    }
}

#[cfg(test)]
mod tests {
    use comm_api::FailureKind;

    use super::*;

    #[test]
    fn the_rank_to_blame_is_that_of_the_world() {
        let error = CommError::failed("fence", FailureKind::PeerLost, Some(1), "it panicked");
        let expected = CommError::failed("fence", FailureKind::PeerLost, Some(9), "it panicked");
        assert_eq!(in_the_world(error, &[8, 9]), expected);
    }
}
