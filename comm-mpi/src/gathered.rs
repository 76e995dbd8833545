//! Gathered regions: every node holds the parts of all ranks, and the leaders of the nodes exchange them.
//!
//! An exchange synchronises in the memory of the node, on the lines of the region itself, so that it is sound
//! even if calls are not compared. On one node that takes one step. With more nodes it takes two, and between
//! them only the leader accesses the region: it broadcasts the parts of its node to the other leaders and
//! receives theirs. Consecutive ranks of the world on one node form one run of memory and one broadcast; all
//! broadcasts run concurrently. (An in-place allgatherv would require parts in the order of their nodes,
//! which they need not have, and `ferrompi` has none.)

use std::ops::Range;
use std::sync::Arc;

use comm_api::bytemuck::cast_slice_mut;
use comm_api::{CommData, CommError, FailureKind, Operation};
use comm_kit::{Call, Origin, Parts, words};
use comm_shm::node;
use ferrompi::{Error, ReduceOp, Request};

use crate::chunk::MOST;
use crate::communicator::FerrompiBackend;
use crate::element::{Width, Word, by_width, with_words};
use crate::entry::Scope;
use crate::ranks::{Trouble, Unfreed};
use crate::region::{FerrompiRegion, in_the_world};

const CREATE: Operation = Operation::CreateGatheredRegion;

/// The nodes of a job that has several, and their leaders.
pub(crate) struct Nodes {
    /// The communicator of the leaders, on a leader.
    leaders: Option<Arc<Unfreed>>,
    /// Which consecutive ranks of the world share a node, and which of the leaders is theirs.
    runs: Vec<(Range<usize>, i32)>,
}

/// The layout of a gathered region across the nodes of a job.
pub(crate) struct Spread {
    nodes: Arc<Nodes>,
    /// How many words each run has, and which leader owns it.
    runs: Vec<(usize, i32)>,
}

impl std::fmt::Debug for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spread")
            .field("runs", &self.runs)
            .finish_non_exhaustive()
    }
}

impl FerrompiBackend {
    /// Creates a gathered region; collective over the world.
    #[track_caller]
    pub(crate) fn gathered<T: CommData>(
        &self,
        count: usize,
    ) -> Result<FerrompiRegion<T>, CommError> {
        let call = Call::gathered_region(size_of::<T>());
        let (mut pass, inside) = self.ranks.enter(CREATE, call, Scope::All)?;
        pass.gathered += 1;
        let origin = Origin {
            communicator: self.ranks.gate().id(),
            number: pass.gathered,
        };
        let agreed = self.agree_on_parts::<T>(count);
        let agreed = agreed.map_err(|trouble| self.ranks.failed(&mut pass, CREATE, trouble));
        let (parts, spread) = agreed?;
        drop(inside);

        let own = parts.range(self.ranks.rank);
        let memory = self.in_memory(CREATE, |node| {
            node.create_gathered_region(parts.len(), own, origin)
        });
        if let Err(error) = &memory
            && error.is_fatal()
        {
            self.end_if_unheard(error);
            return Err(pass.fail(error.clone()));
        }
        let short = self.lowest_short(memory.is_ok());
        let short = short.map_err(|trouble| self.ranks.failed(&mut pass, CREATE, trouble))?;
        match (memory, short) {
            (Ok(memory), None) => Ok(FerrompiRegion {
                memory,
                world: Arc::clone(self.node.world()),
                spread,
                failed: None,
            }),
            (memory, short) => {
                let bytes = parts.len() * size_of::<T>();
                let rank = short.unwrap_or(self.ranks.rank);
                Err(words::no_room(bytes, rank, memory.err()))
            }
        }
    }

    /// Collects how much each rank owns, and on which node it is.
    fn agree_on_parts<T: CommData>(
        &self,
        count: usize,
    ) -> Result<(Parts, Option<Spread>), Trouble> {
        let mut all = vec![0; 2 * self.ranks.size];
        let own = [size_of::<T>() as u64, count as u64];
        self.ranks.comm().allgather(&own, &mut all)?;
        let (all, _) = all.as_chunks::<2>();
        if let Some(odd) = all.iter().position(|[size, _]| *size != all[0][0]) {
            let (first, other) = (all[0][0], all[odd][0]);
            let message = format!(
                "rank 0 creates a gathered region of elements of {first} bytes, rank {odd} one of elements of {other} bytes; all \
                 ranks must pass the same type"
            );
            let kind = FailureKind::Mismatch;
            return Err(CommError::failed(CREATE, kind, Some(odd), message).into());
        }
        // All ranks have the same counts, so either all of them stop here or none.
        let counts = all.iter().map(|&[_, count]| count);
        let parts = Parts::agreed(counts, size_of::<T>())?;
        if !self.has_other_nodes() {
            return Ok((parts, None));
        }
        let nodes = if let Some(nodes) = self.nodes.get() {
            Arc::clone(nodes)
        } else {
            let found = Arc::new(self.find_nodes()?);
            Arc::clone(self.nodes.get_or_init(|| found))
        };
        let elements = |ranks: &Range<usize>| parts.counts()[ranks.clone()].iter().sum::<usize>();
        let runs = nodes.runs.iter();
        let runs = runs.map(|(ranks, leader)| (elements(ranks), *leader));
        let runs = runs.collect();
        Ok((parts, Some(Spread { nodes, runs })))
    }

    /// Determines which ranks share a node; collective over the world, once.
    fn find_nodes(&self) -> Result<Nodes, Error> {
        let world = self.ranks.comm();
        let leader = self.node.world()[0] as u64;
        let mut leader_of = vec![0; self.ranks.size];
        world.allgather(&[leader], &mut leader_of)?;
        let color = self.node.is_leader().then_some(0);
        let leaders = world.split(color, world.rank())?.map(Unfreed::new);
        Ok(Nodes {
            leaders,
            runs: runs(&leader_of),
        })
    }

    /// Returns the lowest rank with too little memory, if there is one; collective over the world.
    fn lowest_short(&self, has_room: bool) -> Result<Option<usize>, Trouble> {
        let rank = self.ranks.rank;
        let _inside = self.ranks.life().pass(CREATE, rank)?;
        let own = if has_room { u64::MAX } else { rank as u64 };
        let mut lowest = [0];
        let world = self.ranks.comm();
        world.allreduce(&[own], &mut lowest, ReduceOp::Min)?;
        let lowest = usize::try_from(lowest[0]).unwrap_or(usize::MAX);
        Ok((lowest < self.ranks.size).then_some(lowest))
    }

    /// Exchanges a gathered region; collective over the world.
    #[track_caller]
    pub(crate) fn exchange_region<T: CommData>(
        &self,
        region: &mut FerrompiRegion<T>,
    ) -> Result<(), CommError> {
        let gate = self.ranks.gate();
        let checked = match &region.failed {
            Some(cause) => Err(cause.again("exchange")),
            None => node::check_exchange(&region.memory, gate.id(), self.ranks.rank),
        };
        let number = gate.checked(checked)?;
        let call = Call::exchange(number);
        let entered = self.ranks.enter(Operation::Exchange, call, Scope::All);
        let (mut pass, inside) = entered.inspect_err(|error| {
            if error.is_fatal() {
                node::fail(&mut region.memory, error);
                region.failed = Some(error.clone());
            }
        })?;
        let FerrompiRegion {
            memory,
            world,
            spread,
            failed,
        } = region;
        // A leader continues with MPI calls, and no other thread may call MPI in between.
        let _inside = spread.as_ref().and(Some(inside));
        let bring = spread.as_ref().map(|spread| {
            |whole: &mut [T]| {
                let brought = spread.gather_parts(cast_slice_mut(whole), size_of::<T>());
                brought.map_err(|error| {
                    crate::error::mpi(Operation::Exchange, self.ranks.rank, &error)
                })
            }
        });
        node::exchange(memory, number, bring).map_err(|error| {
            let error = in_the_world(error, world);
            self.end_if_unheard(&error);
            *failed = Some(error.clone());
            pass.fail(error)
        })
    }
}

impl Spread {
    /// Sends the parts of this node to the other leaders and receives theirs; on a leader.
    fn gather_parts(&self, whole: &mut [u8], elem_size: usize) -> Result<(), Error> {
        if whole.is_empty() {
            return Ok(());
        }
        by_width!(
            Width::of(elem_size),
            self.gather_parts_as::<W>(whole, elem_size)
        )
    }

    fn gather_parts_as<W: Word>(&self, whole: &mut [u8], elem_size: usize) -> Result<(), Error> {
        let Some(leaders) = &self.nodes.leaders else {
            return Ok(());
        };
        let scale = elem_size / size_of::<W>();
        with_words(whole, |words: &mut [W]| {
            let mut pieces = Vec::new();
            let mut rest = words;
            for &(elements, leader) in &self.runs {
                let (run, others) = rest.split_at_mut(elements * scale);
                pieces.extend(run.chunks_mut(MOST).map(|piece| (piece, leader)));
                rest = others;
            }
            ferrompi::scope(|scope| {
                let broadcasts = pieces
                    .into_iter()
                    .map(|(piece, leader)| leaders.ibroadcast(scope, piece, leader));
                let mut requests = broadcasts.collect::<Result<Vec<_>, _>>()?;
                Request::wait_all(&mut requests)
            })
        })
    }
}

/// Cuts the ranks of a world into runs on one node; `leader_of[r]` is the leader of the node of rank `r`.
fn runs(leader_of: &[u64]) -> Vec<(Range<usize>, i32)> {
    let mut leaders = leader_of.to_vec();
    leaders.sort_unstable();
    leaders.dedup();
    let mut start = 0;
    let runs = leader_of.chunk_by(|a, b| a == b).map(|run| {
        let ranks = start..start + run.len();
        start = ranks.end;
        let leader = leaders.binary_search(&run[0]).unwrap_or(0);
        (ranks, i32::try_from(leader).unwrap_or(i32::MAX))
    });
    runs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_follow_each_other_on_a_node_are_one_run() {
        assert_eq!(runs(&[0, 0, 0, 3, 3]), [(0..3, 0), (3..5, 1)]);
        assert_eq!(
            runs(&[0, 1, 0, 1]),
            [(0..1, 0), (1..2, 1), (2..3, 0), (3..4, 1)]
        );
        assert_eq!(
            runs(&[0, 0, 2, 0, 4, 4]),
            [(0..2, 0), (2..3, 1), (3..4, 0), (4..6, 2)]
        );
        assert_eq!(runs(&[0]), [(0..1, 0)]);
    }
}
