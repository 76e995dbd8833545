//! The communicator of many processes on one machine.

use std::sync::Arc;

use comm_api::{
    Blocks, CommData, CommError, Communicator, Operation, ReduceOp, ScalarKind,
    SharedMemoryProvider, check,
};
use comm_kit::{exit_code, report_while_unwinding};

use crate::collective;
use crate::config::{OneCopy, ShmConfig};
use crate::error::InitError;
use crate::protocol::board::Board;
use crate::protocol::step::Sequence;
use crate::protocol::wait::WaitPolicy;
use crate::region::{self, ShmRegion};
use crate::segment::Segment;
use crate::segment::layout::{self, Layout, SLOT_BYTES};
use crate::segment::ranges::Range;

/// Communicates with the other processes (or threads) of a job through shared memory.
///
/// Every collective synchronises all ranks, including the root of a broadcast. If a rank dies, leaves or does
/// not enter a call, all others get an error; see the crate's documentation for the limits.
///
/// ```
/// use comm_api::{CommunicatorExt, ReduceOp};
/// use comm_shm::{ShmBackend, ShmConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let job = format!("cobre-doc-{}", std::process::id());
/// // Ranks are usually processes, but threads work too.
/// let ranks: Vec<_> = (0..2)
///     .map(|rank| {
///         let config = ShmConfig::new(&job, rank, 2);
///         std::thread::spawn(move || {
///             let comm = ShmBackend::attach(config).unwrap();
///             comm.allreduce_scalar(rank + 1, ReduceOp::Sum).unwrap()
///         })
///     })
///     .collect();
/// for rank in ranks {
///     assert_eq!(rank.join().unwrap(), 3);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ShmBackend {
    sequence: Sequence,
    /// The memory of a split, released by the last rank; the memory of a whole segment is released with its
    /// file.
    range: Option<Range>,
}

impl ShmBackend {
    /// Joins the job that `config` describes; returns once all its ranks have attached.
    ///
    /// # Errors
    ///
    /// [`InitError`] if the configuration is unusable, not all ranks attached within
    /// [`connect_timeout`](ShmConfig::connect_timeout), or one of them was interrupted while it waited. Then
    /// all attached ranks fail, and nothing is left behind.
    pub fn attach(config: ShmConfig) -> Result<Self, InitError> {
        Self::with_slots(config, SLOT_BYTES)
    }

    /// Joins a job with slots of `slot_bytes` bytes; with 0 it can only create regions.
    pub(crate) fn with_slots(mut config: ShmConfig, slot_bytes: usize) -> Result<Self, InitError> {
        if slot_bytes == 0 {
            config.one_copy = OneCopy::Off;
        }
        let segment = Segment::open(&config, slot_bytes)?;
        let ShmConfig {
            name,
            rank,
            size,
            timeout,
            ..
        } = config;
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let policy = WaitPolicy::new(size, segment.processors(), timeout);
        let map = Arc::clone(segment.map());
        let layout = Layout::new(size, slot_bytes);
        let board = Board::new(Arc::new(segment), map, layout::sequence(size), layout);
        let one_copy = board.copies_once();
        let comm = Self {
            sequence: Sequence::new(board, rank, policy),
            range: None,
        };
        // Last, because a subscriber may panic: the drop of the communicator then notifies the other ranks.
        tracing::info!(rank, size, name, one_copy, "attached");
        Ok(comm)
    }
}

impl ShmBackend {
    pub(crate) fn sequence(&self) -> &Sequence {
        &self.sequence
    }
}

impl Communicator for ShmBackend {
    #[inline]
    fn rank(&self) -> usize {
        self.sequence.rank()
    }

    #[inline]
    fn size(&self) -> usize {
        self.sequence.size()
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        collective::barrier(&self.sequence)
    }

    fn abort(&self, code: i32) -> ! {
        let code = exit_code(code);
        let gate = self.sequence.gate();
        if gate.owner().is_here() {
            self.sequence.board().segment().abort(self.rank(), code);
            gate.transport().announce();
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
        let (rank, size) = (self.rank(), self.size());
        let checked = check::allgatherv_bytes(rank, size, send, recv, from, elem_size);
        self.sequence.gate().checked(checked)?;
        collective::allgatherv(&self.sequence, send, recv, from, elem_size)
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
        self.sequence.gate().checked(checked)?;
        collective::allreduce(&self.sequence, Some(send), recv, scalar, op)
    }

    #[inline]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let checked = check::allreduce_in_place_bytes(buf, scalar, op);
        self.sequence.gate().checked(checked)?;
        collective::allreduce(&self.sequence, None, buf, scalar, op)
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let checked = check::broadcast_bytes(self.size(), buf, elem_size, root);
        self.sequence.gate().checked(checked)?;
        collective::broadcast(&self.sequence, buf, elem_size, root)
    }

    fn refuse(&self, _operation: Operation, error: &CommError) {
        self.sequence.gate().refuse(error);
    }
}

impl SharedMemoryProvider for ShmBackend {
    type Region<T: CommData> = ShmRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<ShmRegion<T>, CommError> {
        check::placed(region::shared(&self.sequence, count))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        check::placed(region::partitioned(&self.sequence, local_count))
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        check::placed(region::gathered(&self.sequence, local_count))
    }

    #[inline]
    fn exchange<T: CommData>(&self, region: &mut ShmRegion<T>) -> Result<(), CommError> {
        region.exchange(&self.sequence)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        let (range, board) = check::placed(region::split(&self.sequence))?;
        Ok(Box::new(Self {
            sequence: Sequence::new(board, self.rank(), self.sequence.policy()),
            range: Some(range),
        }))
    }

    fn is_leader(&self) -> bool {
        self.rank() == 0
    }
}

impl Drop for ShmBackend {
    fn drop(&mut self) {
        let rank = self.rank();
        if let Some(board) = self.sequence.leave() {
            if let Some(range) = self.range {
                board.release(range);
            }
            report_while_unwinding(|| tracing::info!(rank, "detached"));
        }
    }
}
