//! The ranks that share the memory of this machine.

use std::sync::{Arc, Mutex, PoisonError, TryLockError};

use comm_api::{CommError, Communicator};
use ferrompi::ReduceOp;

use crate::error;
use crate::ranks::{Held, Ranks, Trouble};

/// The ranks of this machine, and the communicators that came of them.
///
/// A communicator that was dropped here may still be used by others, and freeing it is
/// collective. So it stays in the list until all ranks of the node have dropped theirs, which is
/// found out at the next split, where all are anyway. Finalizing MPI frees what is left.
pub(crate) struct Node {
    ranks: Ranks,
    check: bool,
    /// In the order of their creation, which is the same on all ranks of the node.
    splits: Mutex<Vec<Arc<Held>>>,
}

impl Node {
    pub(crate) fn new(ranks: Ranks, check: bool) -> Self {
        Self {
            ranks,
            check,
            splits: Mutex::new(Vec::new()),
        }
    }

    /// Tells whether this rank is the first of its node.
    pub(crate) fn is_leader(&self) -> bool {
        self.ranks.rank == 0
    }

    /// Makes a communicator of the node; collective over it.
    pub(crate) fn split(&self) -> Result<Box<dyn Communicator>, CommError> {
        let operation = "split_local";
        let mut splits = match self.splits.try_lock() {
            Ok(splits) => splits,
            Err(TryLockError::WouldBlock) => {
                return Err(error::busy(operation, self.ranks.rank));
            }
            Err(TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
        };
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
}
