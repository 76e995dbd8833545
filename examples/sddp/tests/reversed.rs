//! A mutant: a communicator that delivers blocks in reverse rank order, to check that the matrix notices it.

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use clap::Parser;
use comm_conformance::mutant::{Mutant, Mutation};
use comm_factory::api::{Blocks, CommError, Communicator, SharedMemoryProvider};

use super::sddp::options::Options;
use super::sddp::train::train;

/// The role of a rank that gets all data in reverse rank order.
pub(crate) const ALL: &str = "reversed";

/// The role of a rank that gets only the costs of the scenarios in reverse rank order: the cuts stay, but the upper bound is folded
/// backwards.
pub(crate) const COSTS: &str = "reversed-costs";

/// The role of a rank that gets the cuts in reverse rank order, and the costs in the right order.
pub(crate) const EXCHANGES: &str = "reversed-exchanges";

/// The most costs of scenarios that a rank has in the case of the matrix; trial points and cuts are more numbers.
const FEW: usize = 5;

/// Reverses the results of `allgatherv` and `exchange`.
struct Reversed {
    costs: bool,
    exchanges: bool,
    /// The length of the points, which are exchanged first.
    points: OnceLock<usize>,
}

/// Runs the solver on this communicator.
pub(crate) fn main(role: &str) -> ExitCode {
    let comm = match comm_factory::create_communicator() {
        Ok(comm) => comm,
        Err(failure) => {
            eprintln!("error: {failure}");
            return ExitCode::FAILURE;
        }
    };
    let reversed = Reversed {
        costs: role != EXCHANGES,
        exchanges: role != COSTS,
        points: OnceLock::new(),
    };
    let comm = Mutant::new(comm, Arc::new(reversed));
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
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        comm.allgatherv_bytes(send, recv, from, elem_size)?;
        let counts = from.counts;
        let bytes = send.len();
        let even = counts.iter().all(|count| *count == counts[0]);
        if even && bytes > 0 && self.costs && (self.exchanges || counts[0] <= FEW) {
            let right = recv.to_vec();
            let blocks = right.chunks_exact(bytes).rev();
            for (wrong, right) in recv.chunks_exact_mut(bytes).zip(blocks) {
                wrong.copy_from_slice(right);
            }
        }
        Ok(())
    }

    /// Delivers the data of the rank at the opposite end of the order, but only cuts: with reversed points, too, every rank would do
    /// the work of the other, and the cuts would be in order again.
    fn before_exchange(&self, comm: &C, written: &mut [u8]) {
        let (rank, size, bytes) = (comm.rank(), comm.size(), written.len());
        if *self.points.get_or_init(|| bytes) == bytes || !self.exchanges {
            return;
        }
        let displs: Vec<usize> = (0..size).map(|rank| rank * bytes).collect();
        let mut all = vec![0; size * bytes];
        // If the parts are uneven, the others pass other counts, and the job fails.
        let gathered = comm.allgatherv_bytes(
            written,
            &mut all,
            Blocks::new(&vec![bytes; size], &displs),
            1,
        );
        if gathered.is_ok() {
            let other = (size - 1 - rank) * bytes;
            written.copy_from_slice(&all[other..other + bytes]);
        }
    }
}
