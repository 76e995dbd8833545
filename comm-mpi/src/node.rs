//! The ranks that share the memory of this machine.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use comm_api::{CommError, Communicator, Operation};
use comm_kit::segments;
use comm_shm::ShmConfig;
use comm_shm::node::NodeRegions;
use ferrompi::ReduceOp;

use crate::entry::Rules;
use crate::ranks::{Ranks, Trouble, Unfreed};

/// The prefix of the temporary name of a node's memory.
const PREFIX: &str = "cobre-mpi-";

/// The ranks of this machine, and what they created together.
pub(crate) struct Node {
    ranks: Ranks,
    /// How the ranks of a split compare their calls, if they do.
    rules: Option<Rules<'static>>,
    /// The world rank of each rank of the node.
    world: Arc<[usize]>,
    /// Never contended: only a call of the world takes it, and there is one such call at a time.
    made: Mutex<Made>,
}

/// What the ranks of a node created together.
#[derive(Default)]
struct Made {
    /// The communicators, in the order of their creation, which is the same on all ranks.
    ///
    /// A communicator that was dropped here may still be used by other ranks, and freeing it is collective.
    /// So it is kept until all ranks of the node have dropped theirs, which is determined at the next split,
    /// where all of them meet anyway. Finalizing MPI frees the rest.
    splits: Vec<Arc<Unfreed>>,
    /// How many there have been, the same on all ranks.
    count: u64,
    /// The shared memory, once a region was requested.
    regions: Option<NodeRegions>,
}

impl Node {
    /// Takes over the node, whose ranks are those of `world`.
    pub(crate) fn new(ranks: Ranks, world: Arc<[usize]>, rules: Option<Rules<'static>>) -> Self {
        Self {
            ranks,
            rules,
            world,
            made: Mutex::default(),
        }
    }

    /// Returns whether this rank is the first of its node.
    pub(crate) fn is_leader(&self) -> bool {
        self.ranks.rank == 0
    }

    /// Returns the world rank of each rank of the node.
    pub(crate) fn world(&self) -> &Arc<[usize]> {
        &self.world
    }

    fn made(&self) -> MutexGuard<'_, Made> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a communicator of the node; collective over it.
    #[track_caller]
    pub(crate) fn split(&self) -> Result<Box<dyn Communicator>, CommError> {
        let Made { splits, count, .. } = &mut *self.made();
        self.ranks.perform_compared(Operation::SplitLocal, |_| {
            self.free(splits)?;
            *count += 1;
            let rules = self.rules.map(|rules| Rules {
                before: *count,
                ..rules
            });
            let comm = Unfreed::new(self.ranks.comm().duplicate()?);
            splits.push(Arc::clone(&comm));
            let (life, reduce) = (self.ranks.life(), self.ranks.reduce());
            let ranks = Ranks::new(life, comm, reduce, rules);
            Ok(Box::new(ranks) as Box<dyn Communicator>)
        })
    }

    /// Frees the communicators that all ranks of the node have dropped, in the order of creation.
    fn free(&self, splits: &mut Vec<Arc<Unfreed>>) -> Result<(), Trouble> {
        if splits.is_empty() {
            return Ok(());
        }
        // Only the list holds dropped communicators, so none of them can be used again.
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
    #[track_caller]
    pub(crate) fn region<R>(
        &self,
        operation: Operation,
        create: impl FnOnce(&NodeRegions) -> Result<R, CommError>,
    ) -> Result<R, CommError> {
        let regions = &mut self.made().regions;
        // The leader creates the name of the memory of the node, and MPI sends it to the ranks: it consists
        // of the leader's process id and a part that cannot be guessed.
        let process = std::process::id();
        let mut name = [process.into(), RandomState::new().hash_one(process)];
        self.ranks.perform_compared(operation, |_| {
            if regions.is_none() {
                self.ranks.comm().broadcast(&mut name, 0)?;
            }
            Ok(())
        })?;
        let regions = match regions {
            Some(regions) => regions,
            None => regions.insert(self.attach(name)?),
        };
        create(regions)
    }

    fn attach(&self, [process, random]: [u64; 2]) -> Result<NodeRegions, CommError> {
        let name = format!("{PREFIX}{process}-{random:016x}");
        if self.is_leader() {
            for name in segments::remove_stale(&segments::folder(), PREFIX) {
                tracing::info!(name, "removed a segment that a killed job left");
            }
        }
        let config = segment(name, self.ranks.rank, self.ranks.size);
        NodeRegions::attach(config).map_err(|error| {
            CommError::allocation_failed(
                0,
                format!("the ranks of this node have no shared memory: {error}"),
            )
        })
    }
}

/// Describes the segment of a node. A fence has no timeout, like MPI calls; a rank that ends is an error all
/// the same.
fn segment(name: String, rank: usize, size: usize) -> ShmConfig {
    let mut config = ShmConfig::new(name, rank, size);
    config.timeout = None;
    config
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_has_no_timeout() {
        assert_eq!(segment(PREFIX.to_owned(), 0, 2).timeout, None);
    }
}
