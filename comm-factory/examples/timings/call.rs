//! One call with its buffers.

use std::hint::black_box;

use comm_exact::ExactSum;
use comm_factory::api::{CommError, Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};

use super::row::{Op, Row};

/// The value that the root of a broadcast sends.
const TOLD: u8 = 77;

/// The buffers of a row; those that its call does not need are empty.
pub(crate) struct Call<'a, C: SharedMemoryProvider> {
    comm: &'a C,
    op: Op,
    send: Vec<f64>,
    recv: Vec<f64>,
    block: Vec<u8>,
    bytes: Vec<u8>,
    counts: Vec<usize>,
    displs: Vec<usize>,
    sum: ExactSum,
    total: ExactSum,
    /// The gathered region, and whether it was exchanged.
    region: Option<C::Region<u8>>,
    exchanged: bool,
}

impl<'a, C: Communicator + SharedMemoryProvider> Call<'a, C> {
    pub(crate) fn new(comm: &'a C, row: Row) -> Result<Self, CommError> {
        let (rank, size) = (comm.rank(), comm.size());
        let floats = match row.op {
            Op::Allreduce => row.bytes / size_of::<f64>(),
            _ => 0,
        };
        let each = row.bytes / size;
        let (block, bytes) = match row.op {
            Op::Barrier
            | Op::Allreduce
            | Op::ExactSum
            | Op::Exchange
            | Op::ExchangeRead
            | Op::StartUp => (0, 0),
            Op::Broadcast | Op::Broadcasts => (0, row.bytes),
            Op::Allgatherv | Op::AllgathervRead => (each, each * size),
            Op::Copy => (row.bytes, row.bytes),
        };
        let region = match row.op {
            Op::Exchange | Op::ExchangeRead => {
                let mut region = comm.create_gathered_region(each)?;
                region.as_mut_slice().fill(mark(rank));
                Some(region)
            }
            _ => None,
        };
        Ok(Self {
            comm,
            op: row.op,
            send: (0..floats).map(|at| number(rank + 1, at)).collect(),
            recv: vec![0.0; floats],
            block: vec![mark(rank); block],
            bytes: vec![if rank == 0 { TOLD } else { 0 }; bytes],
            counts: vec![each; size],
            displs: (0..size).map(|rank| rank * each).collect(),
            sum: [number(rank + 1, 0)].into_iter().collect(),
            total: ExactSum::new(),
            region,
            exchanged: false,
        })
    }

    /// Prepares a call, untimed: a barrier if the call itself does not synchronise with every library, and the fence that a region needs
    /// before it can be exchanged again.
    pub(crate) fn prepare(&mut self) -> Result<(), CommError> {
        match (self.op, &mut self.region) {
            (Op::Broadcast | Op::Copy, _) => self.comm.barrier(),
            (_, Some(region)) if self.exchanged => {
                self.exchanged = false;
                region.fence()
            }
            _ => Ok(()),
        }
    }

    #[inline]
    pub(crate) fn make(&mut self) -> Result<(), CommError> {
        match self.op {
            Op::Barrier | Op::StartUp => self.comm.barrier(),
            Op::Allreduce => self
                .comm
                .allreduce(&self.send, &mut self.recv, ReduceOp::Sum),
            Op::Broadcast | Op::Broadcasts => self.comm.broadcast(&mut self.bytes, 0),
            Op::Allgatherv => {
                self.comm
                    .allgatherv(&self.block, &mut self.bytes, &self.counts, &self.displs)
            }
            Op::AllgathervRead => {
                self.comm
                    .allgatherv(&self.block, &mut self.bytes, &self.counts, &self.displs)?;
                black_box(read_all(&self.bytes));
                Ok(())
            }
            Op::Exchange | Op::ExchangeRead => {
                let Some(region) = &mut self.region else {
                    return Ok(());
                };
                self.comm.exchange(region)?;
                self.exchanged = true;
                if self.op == Op::ExchangeRead {
                    black_box(read_all(region.as_slice()));
                }
                Ok(())
            }
            Op::ExactSum => {
                self.total = self.sum.allreduce(self.comm)?;
                Ok(())
            }
            Op::Copy => {
                black_box(&mut self.bytes).copy_from_slice(black_box(&self.block));
                Ok(())
            }
        }
    }

    /// Returns whether the buffers hold the right result of the call.
    pub(crate) fn is_right(&self) -> bool {
        let size = self.comm.size();
        // Sums of small whole numbers are exact in any order.
        let sum = |at| (1..=size).map(|rank| number(rank, at)).sum::<f64>();
        match self.op {
            Op::Barrier | Op::StartUp => true,
            Op::Allreduce => {
                let sums: Vec<u64> = (0..8).map(|at| sum(at).to_bits()).collect();
                let mut got = self.recv.iter().enumerate();
                got.all(|(at, got)| got.to_bits() == sums[at % 8])
            }
            Op::Broadcast | Op::Broadcasts => self.bytes.iter().all(|&byte| byte == TOLD),
            Op::Allgatherv | Op::AllgathervRead => self.is_gathered(&self.bytes),
            Op::Exchange | Op::ExchangeRead => {
                let region = self.region.as_ref();
                region.is_some_and(|region| self.is_gathered(region.as_slice()))
            }
            Op::ExactSum => self.total.value().to_bits() == sum(0).to_bits(),
            Op::Copy => self.bytes == self.block,
        }
    }

    /// Returns whether the block of each rank is in its place.
    fn is_gathered(&self, all: &[u8]) -> bool {
        let blocks = all.chunks(self.counts[0].max(1));
        let mut blocks = blocks.enumerate();
        blocks.all(|(rank, block)| block.iter().all(|&byte| byte == mark(rank)))
    }
}

/// Adds up all words, as the peers do; ignores an incomplete last word.
fn read_all(bytes: &[u8]) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    words.fold(0, u64::wrapping_add)
}

/// Returns element `at` of the data of a rank; here ranks are counted from 1.
fn number(rank: usize, at: usize) -> f64 {
    // Both are small: a rank, and a number below eight.
    let whole = u32::try_from(rank + at % 8).unwrap_or(u32::MAX);
    f64::from(whole)
}

/// Returns the byte that a rank sends; nearby ranks send other bytes.
fn mark(rank: usize) -> u8 {
    u8::try_from(rank % 251).map_or(1, |rank| rank + 1)
}
