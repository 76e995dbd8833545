//! Performs the steps on one rank, and checks their results.

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};

use super::step::ProgramStep;
use crate::clock;
use crate::model::Memory;
use crate::noise::{Noise, input, same};

/// The state of a rank during the program.
pub(super) struct Player<C: Communicator + SharedMemoryProvider> {
    pub(super) comm: C,
    memory: Memory,
    /// The region that lives as long as the program, and its phase.
    region: C::Region<u64>,
    written: Option<usize>,
    split: Box<dyn Communicator>,
    /// When the last call was entered.
    pub(super) entered: Duration,
}

/// The call that failed.
#[derive(Debug)]
pub(super) enum FailedCall {
    /// A call of the communicator.
    Comm(CommError),
    /// A fence, or a call of a split: the communicator has not been tried yet.
    Beside(CommError),
}

/// How much of the standing region each rank owns.
const PART: usize = 300;

impl<C: Communicator + SharedMemoryProvider> Player<C> {
    /// Creates what lives as long as the program.
    pub(super) fn new(comm: C, memory: Memory) -> Result<Self, (C, Duration, CommError)> {
        let entered = clock::now();
        let made = comm
            .create_partitioned_region(PART)
            .and_then(|region| Ok((region, comm.split_local()?)));
        match made {
            Ok((region, split)) => Ok(Self {
                comm,
                memory,
                region,
                written: None,
                split,
                entered,
            }),
            Err(error) => Err((comm, entered, error)),
        }
    }

    /// Drops everything, in an order drawn from `order`.
    pub(super) fn leave(self, order: usize) {
        let Self {
            comm,
            region,
            split,
            ..
        } = self;
        match order % 3 {
            0 => drop((comm, region, split)),
            1 => drop((region, split, comm)),
            _ => drop((split, comm, region)),
        }
    }

    /// Performs one step.
    ///
    /// # Panics
    ///
    /// If a result is wrong, or a non-fatal error occurs where none is permitted.
    pub(super) fn perform(&mut self, step: &ProgramStep, index: usize) -> Result<(), FailedCall> {
        self.entered = clock::now();
        match step {
            ProgramStep::Call(call) => {
                let (rank, size) = (self.comm.rank(), self.comm.size());
                let follows = || self.entered = clock::now();
                let outcome = call.run(&self.comm, index, follows);
                let outcome = outcome.map_err(FailedCall::Comm)?;
                call.check(&outcome, index, rank, size);
                Ok(())
            }
            ProgramStep::Region { whole, len, phases } => self.visit(index, *whole, *len, *phases),
            ProgramStep::Fence => self.fence(index),
            ProgramStep::Split => {
                let split = self.comm.split_local().map_err(FailedCall::Comm)?;
                self.entered = clock::now();
                self.on_split(split.as_ref(), index)
            }
            ProgramStep::SplitCall => self.on_split(self.split.as_ref(), index),
            ProgramStep::Pause { micros } => {
                self.compute(index, *micros);
                Ok(())
            }
            ProgramStep::Burst { calls } => self.burst(index, *calls),
        }
    }

    /// Returns the expected contents of a region of this node after every rank has written its part.
    fn written(&self, index: usize, whole: bool, len: usize) -> Vec<u64> {
        let rank = self.comm.rank();
        match (whole, self.memory) {
            (true, Memory::Shared) => input(index, 0, len),
            (_, Memory::Heap) => input(index, rank, len),
            (false, Memory::Shared) => (0..self.comm.size())
                .flat_map(|rank| input::<u64>(index, rank, len))
                .collect(),
        }
    }

    fn visit(
        &mut self,
        index: usize,
        whole: bool,
        len: usize,
        phases: usize,
    ) -> Result<(), FailedCall> {
        let made = if whole {
            self.comm.create_shared_region::<u64>(len)
        } else {
            self.comm.create_partitioned_region::<u64>(len)
        };
        let mut region = made.map_err(FailedCall::Comm)?;
        for phase in 0..phases {
            let data = input::<u64>(index + phase, self.comm.rank(), len);
            let mine = region.as_mut_slice();
            mine.copy_from_slice(&data[..mine.len()]);
            self.entered = clock::now();
            region.fence().map_err(FailedCall::Beside)?;
            let wanted = self.written(index + phase, whole, len);
            same("a region", region.as_slice(), &wanted);
            self.entered = clock::now();
            region.fence().map_err(FailedCall::Beside)?;
        }
        Ok(())
    }

    fn fence(&mut self, index: usize) -> Result<(), FailedCall> {
        if let Some(written) = self.written.take() {
            let wanted = self.written(written, false, PART);
            same("the standing region", self.region.as_slice(), &wanted);
        } else {
            let data = input::<u64>(index, self.comm.rank(), PART);
            self.region.as_mut_slice().copy_from_slice(&data);
            self.written = Some(index);
        }
        self.region.fence().map_err(FailedCall::Beside)
    }

    fn on_split(&self, split: &dyn Communicator, index: usize) -> Result<(), FailedCall> {
        let mut sum = [0];
        let result = (&split).allreduce(&[index + self.comm.rank()], &mut sum, ReduceOp::Sum);
        result.map_err(FailedCall::Beside)?;
        let wanted = match self.memory {
            Memory::Shared => (0..self.comm.size()).map(|rank| index + rank).sum(),
            Memory::Heap => index + self.comm.rank(),
        };
        assert_eq!(sum, [wanted], "a sum on a split");
        Ok(())
    }

    /// Computes for a time that differs between ranks.
    fn compute(&self, index: usize, micros: usize) {
        let mut noise = Noise::new(index as u64, &[self.comm.rank()]);
        let time = Duration::from_micros(noise.below(micros) as u64);
        let start = Instant::now();
        while start.elapsed() < time {
            std::hint::spin_loop();
        }
    }

    fn burst(&mut self, index: usize, calls: usize) -> Result<(), FailedCall> {
        let size = self.comm.size();
        for call in 0..calls {
            self.entered = clock::now();
            match (index + call) % 3 {
                0 => self.comm.barrier().map_err(FailedCall::Comm)?,
                1 => {
                    let mut sum = [0];
                    let mine = [call + self.comm.rank()];
                    let result = self.comm.allreduce(&mine, &mut sum, ReduceOp::Sum);
                    result.map_err(FailedCall::Comm)?;
                    let wanted = size * call + size * (size - 1) / 2;
                    assert_eq!(sum, [wanted], "call {call} of a burst");
                }
                _ => {
                    let mut value = [call + self.comm.rank()];
                    let root = call % size;
                    let result = self.comm.broadcast(&mut value, root);
                    result.map_err(FailedCall::Comm)?;
                    assert_eq!(value, [call + root], "call {call} of a burst");
                }
            }
        }
        Ok(())
    }
}
