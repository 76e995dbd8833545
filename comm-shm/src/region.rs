//! Regions: one copy of a table for all ranks of the machine.

mod memory;
mod range;

use std::sync::Arc;

use comm_api::{CommData, CommError, SharedRegion};

use crate::board::Board;
use crate::call::{Call, Kind};
use crate::cause::Reason;
use crate::layout::Layout;
use crate::mapping::Mapping;
use crate::owner::Owner;
use crate::step::{Sequence, Turn};

use memory::Memory;
pub(crate) use range::{Range, exchange};

/// One rank's handle to memory that all ranks of the machine share.
///
/// Made by [`create_shared_region`](comm_api::SharedMemoryProvider::create_shared_region) and
/// [`create_partitioned_region`](comm_api::SharedMemoryProvider::create_partitioned_region) of
/// [`ShmBackend`](crate::ShmBackend). It has steps of its own, so it works after its communicator
/// is gone, and a fence that fails leaves the communicator usable.
#[derive(Debug)]
pub struct ShmRegion<T> {
    memory: Memory<T>,
    sequence: Sequence,
    owner: Owner,
    range: Range,
}

impl<T: CommData> ShmRegion<T> {
    /// Creates a region of which rank `r` owns `parts[r]` elements, on all ranks or none.
    pub(crate) fn create(
        turn: Turn<'_>,
        sequence: &Sequence,
        owner: Owner,
        parts: &[usize],
    ) -> Result<Self, CommError> {
        let (rank, size) = (sequence.rank(), sequence.size());
        let layout = Layout::new(size, 0);
        let sum = |parts: &[usize]| {
            parts
                .iter()
                .try_fold(0_usize, |sum, &part| sum.checked_add(part))
        };
        let bytes = sum(parts).and_then(|count| count.checked_mul(size_of::<T>()));
        let whole = bytes.and_then(|bytes| bytes.checked_next_multiple_of(crate::layout::PAGE));
        let whole = whole.and_then(|whole| whole.checked_add(layout.bytes()));
        // All ranks have the same parts, so all of them stop here or none.
        let (Some(count), Some(bytes), Some(whole)) = (
            sum(parts),
            bytes.filter(|&bytes| isize::try_from(bytes).is_ok()),
            whole.filter(|&whole| isize::try_from(whole).is_ok()),
        ) else {
            return Err(range::too_large(parts, size_of::<T>()));
        };

        let (range, (head, data)) = Range::agree(turn, whole, bytes, |file, offset| {
            let head = Mapping::of(file, offset, layout.bytes())?;
            let start = offset + layout.payload() as u64;
            let data = (bytes > 0).then(|| Mapping::aligned(file, start, bytes, align_of::<T>()));
            Ok((head, data.transpose()?))
        })?;
        let first = parts[..rank].iter().sum();
        let board = Board::new(
            Arc::clone(sequence.board().segment()),
            Arc::new(head),
            0,
            layout,
        );
        Ok(Self {
            memory: Memory::new(data, count, first..first + parts[rank]),
            sequence: Sequence::new(board, rank, sequence.policy()),
            owner,
            range,
        })
    }
}

impl<T: CommData> SharedRegion<T> for ShmRegion<T> {
    fn as_slice(&self) -> &[T] {
        self.memory.as_slice()
    }

    fn as_mut_slice(&mut self) -> &mut [T] {
        self.memory.as_mut_slice()
    }

    fn fence(&mut self) -> Result<(), CommError> {
        self.owner.check()?;
        let ended = self.memory.close();
        let mut turn = self.sequence.begin(Kind::Fence, Call::plain(Kind::Fence))?;
        turn.publish();
        turn.meet()?;
        self.memory.open_after(ended, &turn);
        Ok(())
    }
}

impl<T> Drop for ShmRegion<T> {
    fn drop(&mut self) {
        if self.owner.is_here() {
            let panicking = std::thread::panicking();
            self.sequence.leave(if panicking {
                Reason::Panicked
            } else {
                Reason::Dropped
            });
            self.range.release(self.sequence.board());
        }
    }
}
