//! The ranks together: collectives with their times, and errors that reach all ranks.

use std::time::{Duration, Instant};

use comm_factory::api::{
    CommData, CommError, Communicator, CommunicatorExt, ReduceOp, SharedMemoryProvider,
    SharedRegion,
};

use super::failure::Failure;

/// How many bytes of a reason are sent to the other ranks.
const REASON: usize = 512;

/// The times of a rank, by activity.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    pub(crate) computing: Duration,
    pub(crate) communicating: Duration,
    /// Waiting for ranks that had more to compute.
    pub(crate) waiting: Duration,
}

/// The communicator of this rank, with its times.
#[derive(Debug)]
pub(crate) struct Team<'a, C> {
    pub(crate) comm: &'a C,
    pub(crate) times: Times,
}

impl<'a, C: Communicator + SharedMemoryProvider> Team<'a, C> {
    pub(crate) fn new(comm: &'a C) -> Self {
        let times = Times::default();
        Self { comm, times }
    }

    /// Computes, then synchronises with the others: continues if all ranks succeeded, otherwise fails on all ranks with the reason of
    /// the lowest rank that failed.
    pub(crate) fn together<T>(
        &mut self,
        work: impl FnOnce() -> Result<T, String>,
    ) -> Result<T, Failure> {
        let start = Instant::now();
        let result = work();
        self.times.computing += start.elapsed();
        let start = Instant::now();
        let mine = match result {
            Ok(_) => u64::MAX,
            Err(_) => self.comm.rank() as u64,
        };
        let failed = self.comm.allreduce_scalar(mine, ReduceOp::Min)?;
        self.times.waiting += start.elapsed();
        match result {
            Ok(result) if failed == u64::MAX => Ok(result),
            result => Err(self.failure(failed, result.err())?),
        }
    }

    /// Gets the reason from the rank that failed.
    fn failure(&self, rank: u64, reason: Option<String>) -> Result<Failure, CommError> {
        let mut bytes = [0; REASON];
        for (byte, text) in bytes.iter_mut().zip(reason.unwrap_or_default().bytes()) {
            *byte = text;
        }
        self.comm
            .broadcast(&mut bytes, usize::try_from(rank).unwrap_or(usize::MAX))?;
        let text = String::from_utf8_lossy(&bytes);
        let reason = text.trim_end_matches('\0').to_owned();
        Ok(Failure::Rank { rank, reason })
    }

    /// Gathers the data of all ranks, in rank order; `counts` has the length of each.
    pub(crate) fn gather<T: CommData>(
        &mut self,
        mine: &[T],
        counts: &[usize],
    ) -> Result<Vec<T>, CommError> {
        let start = Instant::now();
        let mut displs = Vec::with_capacity(counts.len());
        let mut total = 0;
        for count in counts {
            displs.push(total);
            total += count;
        }
        let mut all = vec![T::zeroed(); total];
        self.comm.allgatherv(mine, &mut all, counts, &displs)?;
        self.times.communicating += start.elapsed();
        Ok(all)
    }

    /// Copies the data of this rank to its part of a gathered region, and waits until all ranks have: then all ranks read everything.
    pub(crate) fn exchange<T: CommData>(
        &mut self,
        mine: &[T],
        region: &mut C::Region<T>,
    ) -> Result<(), CommError> {
        let start = Instant::now();
        region.as_mut_slice().copy_from_slice(mine);
        self.comm.exchange(region)?;
        self.times.communicating += start.elapsed();
        Ok(())
    }

    /// Ends the reading of a gathered region, so that the next iteration can write.
    pub(crate) fn release<T: CommData>(
        &mut self,
        region: &mut C::Region<T>,
    ) -> Result<(), CommError> {
        let start = Instant::now();
        region.fence()?;
        self.times.communicating += start.elapsed();
        Ok(())
    }

    /// Sends the bytes of rank 0 to all ranks.
    pub(crate) fn share_bytes(&mut self, mut bytes: Vec<u8>) -> Result<Vec<u8>, CommError> {
        let start = Instant::now();
        let len = self.comm.broadcast_value(bytes.len() as u64, 0)?;
        bytes.resize(usize::try_from(len).unwrap_or(usize::MAX), 0);
        self.comm.broadcast(&mut bytes, 0)?;
        self.times.communicating += start.elapsed();
        Ok(bytes)
    }
}
