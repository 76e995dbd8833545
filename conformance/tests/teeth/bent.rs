//! The reference with hooks: a tooth bends what it is about and leaves the rest.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use comm_api::{
    CommData, CommError, Communicator, ReduceOp, ScalarKind, SharedMemoryProvider, SharedRegion,
    bytemuck,
};
use comm_conformance::Seat;
use comm_conformance::reference::{Reference, ReferenceRegion};

/// Bends one thing. Every hook gets the straight communicator and does the right thing unless
/// overridden.
pub(crate) trait Tooth: Send + Sync {
    /// Gives what the communicator really opens.
    fn seat(&self, seat: &Seat) -> (String, usize, usize) {
        (seat.name().to_owned(), seat.rank(), seat.size())
    }

    fn rank(&self, bent: &Bent) -> usize {
        bent.comm.rank()
    }

    fn size(&self, bent: &Bent) -> usize {
        bent.comm.size()
    }

    fn barrier(&self, bent: &Bent) -> Result<(), CommError> {
        bent.comm.barrier()
    }

    fn allgatherv(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        (counts, displs): (&[usize], &[usize]),
        elem_size: usize,
    ) -> Result<(), CommError> {
        bent.comm
            .allgatherv_bytes(send, recv, counts, displs, elem_size)
    }

    fn allreduce(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        bent.comm.allreduce_bytes(send, recv, scalar, op)
    }

    fn broadcast(
        &self,
        bent: &Bent,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        bent.comm.broadcast_bytes(buf, elem_size, root)
    }

    fn refuse(&self, bent: &Bent, operation: &'static str, error: &CommError) {
        bent.comm.refuse(operation, error);
    }

    /// Gets at what this rank has written, just before the fence.
    fn before_fence(&self, written: &mut [u8]) {
        let _ = written;
    }
}

/// Wraps the reference; one type for all teeth, so that the suite is compiled once for them.
pub(crate) struct Bent {
    pub(crate) comm: Reference,
    /// How many calls there were, and the last buffer, for teeth that remember.
    pub(crate) calls: AtomicUsize,
    pub(crate) last: Mutex<Vec<u8>>,
    tooth: &'static dyn Tooth,
}

impl Bent {
    pub(crate) fn new(comm: Reference, tooth: &'static dyn Tooth) -> Self {
        Self {
            comm,
            calls: AtomicUsize::new(0),
            last: Mutex::new(Vec::new()),
            tooth,
        }
    }
}

impl Communicator for Bent {
    fn rank(&self) -> usize {
        self.tooth.rank(self)
    }

    fn size(&self) -> usize {
        self.tooth.size(self)
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.tooth.barrier(self)
    }

    fn abort(&self, code: i32) -> ! {
        self.comm.abort(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        counts: &[usize],
        displs: &[usize],
        elem_size: usize,
    ) -> Result<(), CommError> {
        self.tooth
            .allgatherv(self, send, recv, (counts, displs), elem_size)
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.tooth.allreduce(self, send, recv, scalar, op)
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.tooth.broadcast(self, buf, elem_size, root)
    }

    fn refuse(&self, operation: &'static str, error: &CommError) {
        self.tooth.refuse(self, operation, error);
    }
}

impl SharedMemoryProvider for Bent {
    type Region<T: CommData> = BentRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<BentRegion<T>, CommError> {
        Ok(BentRegion {
            region: self.comm.create_shared_region(count)?,
            writing: true,
            tooth: self.tooth,
        })
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<BentRegion<T>, CommError> {
        Ok(BentRegion {
            region: self.comm.create_partitioned_region(local_count)?,
            writing: true,
            tooth: self.tooth,
        })
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.comm.split_local()
    }

    fn is_leader(&self) -> bool {
        self.comm.is_leader()
    }
}

/// Wraps the region of the reference.
pub(crate) struct BentRegion<T> {
    region: ReferenceRegion<T>,
    writing: bool,
    tooth: &'static dyn Tooth,
}

impl<T: CommData> SharedRegion<T> for BentRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.region.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.region.as_mut_slice()
    }

    fn fence(&mut self) -> Result<(), CommError> {
        if self.writing {
            let written = bytemuck::cast_slice_mut(self.region.as_mut_slice());
            self.tooth.before_fence(written);
        }
        self.writing = !self.writing;
        self.region.fence()
    }
}
