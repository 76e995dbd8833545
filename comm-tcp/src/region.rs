//! Regions: every rank has its own memory, and an exchange of a gathered region copies the parts of the
//! others.

use std::panic::Location;

use comm_api::{
    CommData, CommError, Communicator, Operation, SharedMemoryProvider, bytemuck, check,
};
use comm_kit::{Call, HeapRegion, Origin, Parts};

use crate::collective::ByteBlocks;
use crate::communicator::{TcpBackend, run_from, run_inside};

impl TcpBackend {
    /// Creates a gathered region at two positions in the sequence: first for how much each rank owns, then
    /// for whether all have the memory.
    #[track_caller]
    fn gathered<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        const OPERATION: Operation = Operation::CreateGatheredRegion;
        let Some(gate) = self.gate()? else {
            return HeapRegion::gathered_alone(count, self.id());
        };
        let elem_size = size_of::<T>();
        let call = Call::gathered_region(elem_size);
        let mut pass = gate.enter(OPERATION)?;
        let origin = Origin {
            communicator: self.id(),
            number: pass.sequence,
        };
        let rank = self.rank();
        let share = |own| {
            let mut all = vec![0; self.size()];
            all[rank] = own;
            let (counts, displs): (Vec<_>, Vec<_>) = (0..self.size()).map(|rank| (1, rank)).unzip();
            let blocks = ByteBlocks {
                counts: &counts,
                displs: &displs,
                elem_size: size_of::<u64>(),
            };
            run_inside(&mut pass, OPERATION, |engine| {
                engine.exchange(call, bytemuck::cast_slice_mut(&mut all), blocks)
            })?;
            Ok(all)
        };
        Parts::create_on_all((rank, count), elem_size, share, |parts| {
            HeapRegion::gathered(parts, rank, origin)
        })
    }
}

impl SharedMemoryProvider for TcpBackend {
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
        check::placed(self.gathered(local_count))
    }

    fn exchange<T: CommData>(&self, region: &mut HeapRegion<T>) -> Result<(), CommError> {
        let checked = region.check_exchange(self.id(), self.rank());
        let call = Call::exchange(self.checked(checked)?);
        let (gate, at) = (self.gate()?, Location::caller());
        region.exchange(|whole, parts| {
            let Some(gate) = gate else {
                return Ok(());
            };
            let blocks = ByteBlocks {
                counts: parts.counts(),
                displs: parts.displs(),
                elem_size: size_of::<T>(),
            };
            run_from(gate, Operation::Exchange, at, |engine| {
                engine.exchange(call, whole, blocks)
            })
        })
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(Self::alone()))
    }

    fn is_leader(&self) -> bool {
        true
    }
}
