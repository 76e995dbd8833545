//! The communicator of size 1.

use comm_api::{
    Blocks, CommData, CommError, Communicator, ReduceOp, ScalarKind, SharedMemoryProvider, check,
};
use comm_kit::{CommId, HeapRegion, exit_code};

/// A communicator without other ranks: rank 0 of 1.
///
/// Takes no memory and no start-up time. In generic code compiled for it, only the argument checks and the
/// copies remain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LocalBackend;

impl LocalBackend {
    /// Creates the communicator; the same as using the unit struct.
    #[must_use]
    pub const fn new() -> Self {
        Self
    }
}

impl Communicator for LocalBackend {
    #[inline]
    fn rank(&self) -> usize {
        0
    }

    #[inline]
    fn size(&self) -> usize {
        1
    }

    #[inline]
    fn barrier(&self) -> Result<(), CommError> {
        Ok(())
    }

    fn abort(&self, code: i32) -> ! {
        std::process::exit(exit_code(code))
    }

    #[inline]
    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        check::placed(check::allgatherv_bytes(0, 1, send, recv, from, elem_size))?;
        let start = from.displs[0] * elem_size;
        recv[start..start + send.len()].copy_from_slice(send);
        Ok(())
    }

    /// Passes no label, unlike the provided method: there is no other rank to compare it with.
    #[inline]
    fn allgatherv<T: CommData>(
        &self,
        send: &[T],
        recv: &mut [T],
        counts: &[usize],
        displs: &[usize],
    ) -> Result<(), CommError> {
        let checked = check::allgatherv(0, 1, send.len(), recv.len(), counts, displs);
        check::placed(checked)?;
        recv[displs[0]..displs[0] + counts[0]].copy_from_slice(send);
        Ok(())
    }

    #[inline]
    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        check::placed(check::allreduce_bytes(send, recv, scalar, op))?;
        recv.copy_from_slice(send);
        Ok(())
    }

    /// The result is the input.
    #[inline]
    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        check::placed(check::allreduce_in_place_bytes(buf, scalar, op))
    }

    #[inline]
    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        check::placed(check::broadcast_bytes(1, buf, elem_size, root))
    }

    /// Without the label of the provided method.
    #[inline]
    fn broadcast<T: CommData>(&self, _: &mut [T], root: usize) -> Result<(), CommError> {
        check::placed(check::broadcast(1, root))
    }
}

impl SharedMemoryProvider for LocalBackend {
    type Region<T: CommData> = HeapRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        check::placed(HeapRegion::new(count))
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<HeapRegion<T>, CommError> {
        check::placed(HeapRegion::new(local_count))
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<HeapRegion<T>, CommError> {
        check::placed(HeapRegion::gathered_alone(local_count, CommId::LOCAL))
    }

    fn exchange<T: CommData>(&self, region: &mut HeapRegion<T>) -> Result<(), CommError> {
        check::placed(region.check_exchange(CommId::LOCAL, 0))?;
        region.exchange(|_, _| Ok(()))
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(Self))
    }

    fn is_leader(&self) -> bool {
        true
    }
}
