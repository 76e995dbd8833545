//! Regions: every rank has memory of its own, and an exchange of a gathered one brings the parts of the others.

use comm_api::{CommData, CommError, Communicator, Operation, SharedMemoryProvider, bytemuck};
use comm_kit::{Call, Origin, Parts, words};
use comm_local::{HeapRegion, LocalBackend};

use crate::collective::ByteBlocks;
use crate::communicator::{TcpBackend, run, run_inside};

impl TcpBackend {
    /// Creates a gathered region in two places of the sequence: who owns how much, and whether all have the memory.
    fn gathered<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        const OPERATION: Operation = Operation::CreateGatheredRegion;
        let elem_size = size_of::<T>();
        let mut origin = Origin {
            communicator: self.id(),
            number: 0,
        };
        let rank = self.rank();
        let Some(gate) = self.gate()? else {
            return HeapRegion::gathered(Parts::new(vec![count], elem_size)?, rank, origin);
        };
        let call = Call::gathered_region(elem_size);
        let mut pass = gate.enter(OPERATION)?;
        origin.number = pass.sequence;
        let mut share = |own: [u64; 2]| -> Result<Vec<[u64; 2]>, CommError> {
            let mut all = vec![[0; 2]; self.size()];
            all[rank] = own;
            let (counts, displs): (Vec<_>, Vec<_>) = (0..self.size()).map(|rank| (1, rank)).unzip();
            let blocks = ByteBlocks {
                counts: &counts,
                displs: &displs,
                elem_size: size_of::<[u64; 2]>(),
            };
            run_inside(&mut pass, OPERATION, |engine| {
                engine.exchange(call, bytemuck::cast_slice_mut(&mut all), blocks)
            })?;
            Ok(all)
        };
        let asked = share([elem_size as u64, count as u64])?;
        let counts = asked.iter().map(|&[_, count]| usize::try_from(count));
        let counts = counts.map(|count| count.unwrap_or(usize::MAX));
        // All ranks have the same counts, so all of them stop here or none.
        let parts = Parts::new(counts.collect(), elem_size)?;
        let requested_bytes = parts.len() * elem_size;
        let region = HeapRegion::gathered(parts, rank, origin);
        let found = share([u64::from(region.is_ok()), 0])?;
        match (region, found.iter().position(|&[found, _]| found == 0)) {
            (Ok(region), None) => Ok(region),
            (region, short) => {
                let short = short.unwrap_or(rank);
                Err(words::no_room(requested_bytes, short, region.err()))
            }
        }
    }
}

impl SharedMemoryProvider for TcpBackend {
    type Region<T: CommData> = HeapRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        HeapRegion::new(count)
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<HeapRegion<T>, CommError> {
        HeapRegion::new(local_count)
    }

    fn create_gathered_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<HeapRegion<T>, CommError> {
        self.gathered(local_count)
    }

    fn exchange<T: CommData>(&self, region: &mut HeapRegion<T>) -> Result<(), CommError> {
        let checked = region.check_exchange(self.id(), self.rank());
        let call = Call::exchange(self.checked(checked)?);
        let gate = self.gate()?;
        region.exchange(|whole, parts| {
            let Some(gate) = gate else {
                return Ok(());
            };
            let blocks = ByteBlocks {
                counts: parts.counts(),
                displs: parts.displs(),
                elem_size: size_of::<T>(),
            };
            run(gate, Operation::Exchange, |engine| {
                engine.exchange(call, whole, blocks)
            })
        })
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(LocalBackend))
    }

    fn is_leader(&self) -> bool {
        true
    }
}
