//! Regions: one copy of a table for all ranks of the machine.

mod create;
mod exchange;
mod memory;

use comm_api::{CommData, CommError, SharedRegion, check};
use comm_kit::Call;

use crate::protocol::step::Sequence;
use crate::segment::ranges::Range;

pub(crate) use create::{gathered, of_a_job, partitioned, shared, split};
use memory::Memory;

/// One rank's handle to memory that all ranks of the machine share.
///
/// Created by [`create_shared_region`](comm_api::SharedMemoryProvider::create_shared_region),
/// [`create_partitioned_region`](comm_api::SharedMemoryProvider::create_partitioned_region) and
/// [`create_gathered_region`](comm_api::SharedMemoryProvider::create_gathered_region) of
/// [`ShmBackend`](crate::ShmBackend). It has its own steps, so its fences work after its communicator is gone,
/// and a failed fence leaves the communicator usable. An exchange is one step of the communicator instead: it
/// costs as much as a barrier, whatever the size of the region.
///
/// In a forked child both accessors panic: the child would write the part of its parent. A slice that was
/// borrowed before the fork still shows the parent's memory; using it is the responsibility of the code that
/// called `fork`, which is unsafe. (Memory that a child does not inherit, `MADV_DONTFORK`, would also kill a
/// child that only reads with `SIGSEGV`, and would leave an address that the drop of the handle must not
/// unmap.)
#[derive(Debug)]
pub struct ShmRegion<T> {
    memory: Memory<T>,
    sequence: Sequence,
    range: Range,
}

impl<T: CommData> SharedRegion<T> for ShmRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.sequence.gate().owner().expect_here("as_slice");
        self.memory.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.sequence.gate().owner().expect_here("as_mut_slice");
        self.memory.as_mut_slice()
    }

    fn fence(&mut self) -> Result<(), CommError> {
        // Before the phase ends, so that a forked child leaves the handle unchanged.
        check::placed(self.sequence.gate().owner().check())?;
        check::placed(self.memory.check_fence(self.sequence.rank()))?;
        let ended = self.memory.close();
        let mut turn = self.sequence.begin(Call::fence())?;
        turn.publish();
        turn.meet()?;
        self.memory.open_after(ended, &turn);
        Ok(())
    }
}

impl<T> Drop for ShmRegion<T> {
    fn drop(&mut self) {
        if let Some(board) = self.sequence.leave() {
            board.release(self.range);
        }
    }
}
