//! A mutant: a communicator that delivers blocks in reverse rank order, to see that the matrix notices.

use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use comm_conformance::mutant::{Mutant, Mutation};
use comm_factory::api::{CommError, Communicator, SharedMemoryProvider};

use super::sddp::options::Options;
use super::sddp::train::train;

/// The role of a rank that gets everything in reverse rank order.
pub(crate) const ALL: &str = "reversed";

/// The role of a rank that gets only the costs of the scenarios so: the cuts stay, the upper bound is folded backwards.
pub(crate) const COSTS: &str = "reversed-costs";

/// The most costs of scenarios that a rank has in the case of the matrix; trial points and cuts are more numbers.
const FEW: usize = 5;

/// Reverses what an `allgatherv` delivers.
struct Reversed {
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
    let comm = Mutant::new(comm, Arc::new(Reversed { only_costs }));
    match train(&comm, "reversed", &Options::parse()) {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::FAILURE
        }
    }
}

impl<C: Communicator + SharedMemoryProvider> Mutation<C> for Reversed {
    fn allgatherv(
        &self,
        comm: &C,
        send: &[u8],
        recv: &mut [u8],
        (counts, displs): (&[usize], &[usize]),
        elem_size: usize,
    ) -> Result<(), CommError> {
        comm.allgatherv_bytes(send, recv, counts, displs, elem_size)?;
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
}
