//! The ranks that share the memory of this machine.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex};

use comm_api::{CommError, Communicator};
use comm_shm::ShmConfig;
use comm_shm::node::NodeRegions;
use ferrompi::ReduceOp;

use crate::error::{self, InitError};
use crate::ranks::{Held, Ranks, Trouble};

/// The ranks of this machine, and the communicators that came of them.
///
/// A communicator that was dropped here may still be used by others, and freeing it is
/// collective. So it stays in the list until all ranks of the node have dropped theirs, which is
/// found out at the next split, where all are anyway. Finalizing MPI frees what is left.
pub(crate) struct Node {
    ranks: Ranks,
    check: bool,
    /// Which rank of the world each rank of the node is.
    world: Arc<[usize]>,
    /// In the order of their creation, which is the same on all ranks of the node.
    splits: Mutex<Vec<Arc<Held>>>,
    /// The shared memory, once a region was asked for.
    regions: Mutex<Option<NodeRegions>>,
}

impl Node {
    /// Takes over the node; `rank` is this one in the world.
    pub(crate) fn new(ranks: Ranks, rank: usize, check: bool) -> Result<Self, InitError> {
        let mut world = vec![0; ranks.size];
        let gathered = ranks.comm().allgather(&[rank as u64], &mut world);
        gathered.map_err(|error| error::start("the ranks of a node could not meet", &error))?;
        let world = world
            .into_iter()
            .map(|rank| usize::try_from(rank).unwrap_or(0));
        Ok(Self {
            ranks,
            check,
            world: world.collect(),
            splits: Mutex::new(Vec::new()),
            regions: Mutex::new(None),
        })
    }

    /// Returns whether this rank is the first of its node.
    pub(crate) fn is_leader(&self) -> bool {
        self.ranks.rank == 0
    }

    /// Returns which rank of the world each rank of the node is.
    pub(crate) fn world(&self) -> &Arc<[usize]> {
        &self.world
    }

    /// Creates a communicator of the node; collective over it.
    pub(crate) fn split(&self) -> Result<Box<dyn Communicator>, CommError> {
        let operation = "split_local";
        let mut splits = self.ranks.alone(&self.splits, operation)?;
        self.ranks.perform_unchecked(operation, |_| {
            self.free(&mut splits)?;
            let comm = Held::new(self.ranks.comm().duplicate()?);
            splits.push(Arc::clone(&comm));
            let ranks = Ranks::new(self.ranks.life(), comm, self.ranks.reduce(), self.check);
            Ok(Box::new(ranks) as Box<dyn Communicator>)
        })
    }

    /// Frees the communicators that all ranks of the node have dropped, in the order of creation.
    fn free(&self, splits: &mut Vec<Arc<Held>>) -> Result<(), Trouble> {
        if splits.is_empty() {
            return Ok(());
        }
        // The list alone holds what was dropped, so nobody can hold it again.
        let dropped: Vec<u8> = splits
            .iter()
            .map(|comm| u8::from(Arc::strong_count(comm) == 1))
            .collect();
        let mut everywhere = vec![0; dropped.len()];
        let comm = self.ranks.comm();
        comm.allreduce(&dropped, &mut everywhere, ReduceOp::Min)?;
        let mut kept = Vec::with_capacity(splits.len());
        for (comm, dropped) in splits.drain(..).zip(everywhere) {
            match (dropped, Arc::try_unwrap(comm)) {
                (1, Ok(comm)) => comm.free(),
                (_, Ok(comm)) => kept.push(Arc::new(comm)),
                (_, Err(comm)) => kept.push(comm),
            }
        }
        *splits = kept;
        Ok(())
    }

    /// Creates a region in the memory of the node; collective over it.
    pub(crate) fn region<R>(
        &self,
        operation: &'static str,
        create: impl FnOnce(&NodeRegions) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        let mut regions = self.ranks.alone(&self.regions, operation)?;
        if regions.is_none() {
            *regions = Some(self.attach(operation)?);
        }
        match &*regions {
            Some(regions) => create(regions),
            None => Err(CommError::InvalidCommunicator),
        }
    }

    /// Finds the memory of the node, under a name that the leader makes up and MPI carries.
    fn attach(&self, operation: &'static str) -> Result<NodeRegions, CommError> {
        let mut name = [RandomState::new().hash_one(std::process::id())];
        self.ranks.perform_unchecked(operation, |_| {
            Ok(self.ranks.comm().broadcast(&mut name, 0)?)
        })?;
        let name = format!("cobre-mpi-{:016x}", name[0]);
        let mut config = ShmConfig::new(name, self.ranks.rank, self.ranks.size);
        // MPI waits for ever; a rank that ends is an error of the fence all the same.
        config.timeout = None;
        NodeRegions::attach(config).map_err(|error| CommError::AllocationFailed {
            requested_bytes: 0,
            message: format!("the ranks of this node have no shared memory: {error}"),
        })
    }
}
