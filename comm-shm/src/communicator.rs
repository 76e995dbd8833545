//! The communicator of many processes on one machine.

use std::sync::Arc;

use comm_api::{
    CommData, CommError, Communicator, ReduceOp, ScalarKind, SharedMemoryProvider, check,
};

use crate::board::Board;
use crate::cause::Reason;
use crate::collective;
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::layout::{self, Layout, SLOT_BYTES};
use crate::owner::Owner;
use crate::region::{self, ShmRegion};
use crate::segment::{Range, Segment};
use crate::step::Sequence;
use crate::wait::WaitPolicy;

/// Communicates with the other processes (or threads) of a job through shared memory.
///
/// Every collective synchronises all ranks, a broadcast's root included. A rank that dies, leaves
/// or stays away becomes an error on all others; see the crate's documentation for the limits.
///
/// ```
/// use comm_api::{CommunicatorExt, ReduceOp};
/// use comm_shm::{ShmBackend, ShmConfig};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let job = format!("cobre-doc-{}", std::process::id());
/// // Each rank is a process as a rule; threads will do.
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
    owner: Owner,
    /// The memory of a split, given back by the last rank; a whole segment goes with its file.
    range: Option<Range>,
}

impl ShmBackend {
    /// Joins the job that `config` describes; returns once all its ranks have come.
    ///
    /// # Errors
    ///
    /// [`InitError`] if the configuration cannot be used or the ranks did not come together
    /// within [`connect_timeout`](ShmConfig::connect_timeout). All ranks that came fail then, and
    /// nothing is left behind.
    pub fn attach(config: ShmConfig) -> Result<Self, InitError> {
        Self::with_slots(config, SLOT_BYTES)
    }

    /// Joins a job whose slots have `slot_bytes` bytes; with 0 it can create regions and nothing else.
    pub(crate) fn with_slots(config: ShmConfig, slot_bytes: usize) -> Result<Self, InitError> {
        let segment = Segment::open(&config, slot_bytes)?;
        let owner = Owner::mark().map_err(|error| {
            InitError::failed(
                &[],
                format!("cannot map the page that tells a forked child: {error}"),
            )
        })?;
        let ShmConfig {
            name,
            rank,
            size,
            timeout,
            ..
        } = config;
        tracing::info!(rank, size, name, "attached");
        let map = Arc::clone(segment.map());
        let layout = Layout::new(size, slot_bytes);
        let board = Board::new(Arc::new(segment), map, layout::sequence(size), layout);
        Ok(Self {
            sequence: Sequence::new(board, rank, WaitPolicy::new(size, timeout)),
            owner,
            range: None,
        })
    }

    /// Refuses a call of this rank, in the eyes of the others too.
    #[cold]
    fn reject(&self, operation: &'static str, error: CommError) -> CommError {
        self.refuse(operation, &error);
        error
    }

    fn segment(&self) -> &Arc<Segment> {
        self.sequence.board().segment()
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
        self.owner.check()?;
        collective::barrier(&self.sequence)
    }

    fn abort(&self, code: i32) -> ! {
        let code = if code == 0 { 1 } else { code };
        if self.owner.is_here() {
            self.segment().abort(self.rank(), code);
            self.sequence.announce();
        }
        std::process::exit(code)
    }

    #[inline]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        counts: &[usize],
        displs: &[usize],
        elem_size: usize,
    ) -> Result<(), CommError> {
        self.owner.check()?;
        let (rank, size) = (self.rank(), self.size());
        check::allgatherv_bytes(rank, size, send, recv, counts, displs, elem_size)
            .map_err(|error| self.reject("allgatherv", error))?;
        collective::allgatherv(&self.sequence, send, recv, counts, displs, elem_size)
    }

    #[inline]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.owner.check()?;
        check::allreduce_bytes(send, recv, scalar, op)
            .map_err(|error| self.reject("allreduce", error))?;
        collective::allreduce(&self.sequence, send, recv, scalar, op)
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.owner.check()?;
        check::broadcast_bytes(self.size(), buf, elem_size, root)
            .map_err(|error| self.reject("broadcast", error))?;
        collective::broadcast(&self.sequence, buf, elem_size, root)
    }

    fn refuse(&self, operation: &'static str, error: &CommError) {
        if self.owner.is_here() {
            self.sequence
                .refuse(&format!("{operation} was refused there: {error}"));
        }
    }
}

impl SharedMemoryProvider for ShmBackend {
    type Region<T: CommData> = ShmRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<ShmRegion<T>, CommError> {
        self.owner.check()?;
        region::shared(&self.sequence, self.owner, count)
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<ShmRegion<T>, CommError> {
        self.owner.check()?;
        region::partitioned(&self.sequence, self.owner, local_count)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.owner.check()?;
        let (range, board) = region::split(&self.sequence)?;
        Ok(Box::new(Self {
            sequence: Sequence::new(board, self.rank(), self.sequence.policy()),
            owner: self.owner,
            range: Some(range),
        }))
    }

    fn is_leader(&self) -> bool {
        self.rank() == 0
    }
}

impl Drop for ShmBackend {
    fn drop(&mut self) {
        if !self.owner.is_here() {
            // A forked child only unmaps.
            return;
        }
        self.sequence.leave(Reason::of_drop());
        if let Some(range) = self.range {
            self.sequence.board().release(range);
        }
        tracing::info!(rank = self.rank(), "detached");
    }
}
