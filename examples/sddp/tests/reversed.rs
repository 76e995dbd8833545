//! A mutant: a communicator that delivers blocks in reverse rank order, to see that the matrix notices.

use std::process::ExitCode;

use clap::Parser;
use comm_factory::api::{
    CommData, CommError, Communicator, ReduceOp, ScalarKind, SharedMemoryProvider,
};
use comm_factory::{CommBackend, CommRegion};

use super::sddp::options::Options;
use super::sddp::train::train;

/// The role of a rank that gets everything in reverse rank order.
pub(crate) const ALL: &str = "reversed";

/// The role of a rank that gets only the costs of the scenarios so: the cuts stay, the upper bound is folded backwards.
pub(crate) const COSTS: &str = "reversed-costs";

/// The most costs of scenarios that a rank has in the case of the matrix; trial points and cuts are more numbers.
const FEW: usize = 5;

/// Wraps a right communicator.
struct Reversed {
    comm: CommBackend,
    only_costs: bool,
}

/// Runs the solver on it.
pub(crate) fn main(role: &str) -> ExitCode {
    let comm = match comm_factory::create_communicator() {
        Ok(comm) => comm,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let only_costs = role == COSTS;
    let comm = Reversed { comm, only_costs };
    match train(&comm, "reversed", &Options::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl Communicator for Reversed {
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    fn size(&self) -> usize {
        self.comm.size()
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.comm.barrier()
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
        self.comm
            .allgatherv_bytes(send, recv, counts, displs, elem_size)?;
        let bytes = send.len();
        let even = counts.iter().all(|count| *count == counts[0]);
        if even && bytes > 0 && (!self.only_costs || counts[0] <= FEW) {
            let right = recv.to_vec();
            let blocks = right.chunks_exact(bytes).rev();
            for (wrong, right) in recv.chunks_exact_mut(bytes).zip(blocks) {
                wrong.copy_from_slice(right);
            }
        }
        Ok(())
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.comm.allreduce_bytes(send, recv, scalar, op)
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.comm.broadcast_bytes(buf, elem_size, root)
    }
}

impl SharedMemoryProvider for Reversed {
    type Region<T: CommData> = CommRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<CommRegion<T>, CommError> {
        self.comm.create_shared_region(count)
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<CommRegion<T>, CommError> {
        self.comm.create_partitioned_region(local_count)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        self.comm.split_local()
    }

    fn is_leader(&self) -> bool {
        self.comm.is_leader()
    }
}
