//! The communicator: the trait methods, each of which takes one turn with MPI.

use std::fmt;
use std::sync::{Arc, OnceLock};

use comm_api::{Blocks, CommError, Communicator, Operation, ReduceOp, ScalarKind, check};
use comm_kit::{Call, exit_code};

use crate::collective::ByteBlocks;
use crate::config::MpiConfig;
use crate::entry::Rules;
use crate::error::InitError;
use crate::gathered::Nodes;
use crate::init::{self, Start};
use crate::node::Node;
use crate::ranks::{Ranks, Unfreed};

/// Communicates through MPI.
///
/// Created by [`init`](Self::init); rank and size come from the MPI launcher. Once all communicators of the
/// process, including those of [`split_local`], are dropped, MPI is finalized when the process exits. Regions
/// do not need MPI and stay usable.
///
/// # Contract
///
/// - **Threads.** Any thread may call, one at a time. Where the MPI library permits fewer threads, a call
///   from any other thread is an error.
/// - **Ends.** A rank that unwinds while this communicator is alive ends the job through `MPI_Abort`. So does
///   a rank that exits with a code other than 0, with that code, and one that exits with 0 while this
///   communicator is alive, with code 1: drop the communicator before the process ends. A rank that drops it
///   after an MPI error or a timeout also ends the job, when it exits or after a second.
///
/// [`split_local`]: comm_api::SharedMemoryProvider::split_local
///
/// ```no_run
/// use comm_api::{Communicator, ReduceOp};
/// use comm_mpi::{FerrompiBackend, MpiConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let comm = FerrompiBackend::init(MpiConfig::from_env()?)?;
/// let mut sum = [0.0];
/// comm.allreduce(&[0.1], &mut sum, ReduceOp::Sum)?;
/// # Ok(())
/// # }
/// ```
pub struct FerrompiBackend {
    pub(crate) ranks: Ranks,
    pub(crate) node: Node,
    pub(crate) nodes: OnceLock<Arc<Nodes>>,
}

impl FerrompiBackend {
    /// Initialises MPI and joins the job that the MPI launcher started; collective over all ranks.
    ///
    /// Requests the highest thread level of MPI. Calls use separate MPI communicators, so other users of MPI
    /// in the same process do not interfere.
    ///
    /// A process may create several communicators, for example one per thread, in the same order on all
    /// ranks. The first one initialises MPI.
    ///
    /// `ferrompi` supports at most 255 communicators per process at a time. Each `init` takes two of them
    /// until the process ends; the first gathered region that other nodes share takes one more on the first
    /// rank of each node. Each [`split_local`] takes one, which is freed at the next split after all ranks of
    /// the node have dropped it.
    ///
    /// [`split_local`]: comm_api::SharedMemoryProvider::split_local
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration) if the configurations of the
    /// ranks differ, or if an earlier communicator of this process has another [`check`](MpiConfig::check).
    /// [`Failed`](crate::InitErrorKind::Failed) if MPI cannot be initialised, was initialised by other code
    /// of this process, is not the library of the `mpi.h` that the program was built with, or found one rank
    /// where the launcher started more, as under the `mpiexec` of another MPI.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "every backend takes its configuration"
    )]
    pub fn init(config: MpiConfig) -> Result<Self, InitError> {
        let mut turn = init::turn();
        let Start {
            life,
            world,
            node,
            members,
        } = init::start(&config, &mut turn)?;
        let MpiConfig {
            reduce,
            check,
            timeout,
            ..
        } = config;
        let rules = check.then_some(Rules {
            timeout,
            node: None,
            before: 0,
        });
        let of_all = rules.map(|rules| Rules {
            node: Some(&members),
            ..rules
        });
        let ranks = Ranks::new(&life, Unfreed::new(world), reduce, of_all);
        // Its calls are compared as calls of all ranks.
        let node = Ranks::new(&life, Unfreed::new(node), reduce, None);
        let node = Node::new(node, Arc::clone(&members), rules);
        let nodes = OnceLock::new();
        Ok(Self { ranks, node, nodes })
    }
}

impl Ranks {
    #[inline]
    #[track_caller]
    fn gather(
        &self,
        send: &[u8],
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), CommError> {
        let call = || Call::allgatherv(blocks.counts, blocks.elem_size);
        self.perform(Operation::Allgatherv, call, |work| {
            Ok(self.allgatherv(&mut work.lists, send, recv, blocks)?)
        })
    }
}

impl Communicator for Ranks {
    #[inline]
    fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    fn size(&self) -> usize {
        self.size
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        self.perform(Operation::Barrier, Call::barrier, |_| {
            Ok(self.comm().barrier()?)
        })
    }

    fn abort(&self, code: i32) -> ! {
        let code = exit_code(code);
        // A forked child has no MPI, and exits on its own.
        if self.gate().owner().is_here() {
            self.life().end().abort(code)
        }
        std::process::exit(code)
    }

    #[inline]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size);
        let checked = check::allgatherv_bytes(rank, size, send, recv, from, elem_size);
        self.gate().checked(checked)?;
        self.gather(send, recv, ByteBlocks::new(from, elem_size))
    }

    #[inline]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_bytes(send, recv, scalar, op);
        self.gate().checked(checked)?;
        let call = || Call::allreduce(send.len(), scalar, op);
        self.perform(Operation::Allreduce, call, |work| {
            self.allreduce(&mut work.scratch, Some(send), recv, scalar, op)
        })
    }

    #[inline]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_in_place_bytes(buf, scalar, op);
        self.gate().checked(checked)?;
        let call = Call::allreduce(buf.len(), scalar, op);
        self.perform(
            Operation::Allreduce,
            || call,
            |work| self.allreduce(&mut work.scratch, None, buf, scalar, op),
        )
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let checked = check::broadcast_bytes(self.size, buf, elem_size, root);
        self.gate().checked(checked)?;
        let call = Call::broadcast(buf.len(), elem_size, root);
        self.perform(
            Operation::Broadcast,
            || call,
            |_| Ok(self.broadcast(buf, elem_size, root)?),
        )
    }

    fn refuse(&self, _operation: Operation, error: &CommError) {
        self.gate().refuse(error);
    }
}

impl fmt::Debug for FerrompiBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FerrompiBackend")
            .field("ranks", &self.ranks)
            .finish_non_exhaustive()
    }
}

impl Communicator for FerrompiBackend {
    #[inline]
    fn rank(&self) -> usize {
        self.ranks.rank
    }

    #[inline]
    fn size(&self) -> usize {
        self.ranks.size
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        self.ranks.barrier()
    }

    fn abort(&self, code: i32) -> ! {
        self.ranks.abort(code)
    }

    #[inline]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        self.ranks.allgatherv_bytes(send, recv, from, elem_size)
    }

    #[inline]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.ranks.allreduce_bytes(send, recv, scalar, op)
    }

    #[inline]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.ranks.allreduce_in_place_bytes(buf, scalar, op)
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.ranks.broadcast_bytes(buf, elem_size, root)
    }

    fn refuse(&self, operation: Operation, error: &CommError) {
        self.ranks.refuse(operation, error);
    }
}
