//! A complete distributed solver: stochastic dual dynamic programming for hydrothermal dispatch.
//!
//! Reservoirs have random inflows; water turbined today saves fuel today and is missing tomorrow. The method runs its policy
//! forward along sampled inflows, then backward from the last stage, where linear programs give the value of water; those values
//! become cuts, and thereby the policy of the next iteration. The example uses the library as real solvers do:
//!
//! | what | by |
//! |---|---|
//! | the case | `broadcast`, into shared regions |
//! | the possible inflows | a partitioned region, populated by the ranks of each node |
//! | trial points and costs of the scenarios | `allgatherv` after the forward pass |
//! | cuts | `allgatherv` per stage of the backward pass |
//! | the lower bound | `allreduce` with `Min` |
//! | a failure on one rank | `allreduce` with `Min` before each of these: all ranks end with its cause |
//! | a checkpoint | `barrier`, then rank 0 writes |
//!
//! Scenarios are split into contiguous blocks and every result has its own slot, so the policy and both bounds have the same
//! bits on every backend, with any number of ranks and threads.
//!
//! ```text
//! comm-run -n 4 -- sddp --stages 24 --plants 4
//! ```

mod backward;
mod boards;
mod checkpoint;
mod failure;
mod forward;
pub(crate) mod options;
mod plot;
mod policy;
mod report;
mod setup;
mod split;
mod team;
pub(crate) mod train;
mod work;

use std::io::Write;
use std::process::ExitCode;

use failure::Failure;
use options::Options;
use sddp_dispatch::{cuts, hash, lp, model, subproblem};

/// Runs as one rank, however the program was started.
pub(crate) fn main() -> ExitCode {
    let options = Options::read();
    let result = comm_factory::create_communicator()
        .map_err(Failure::from)
        .and_then(|comm| train::train(&comm, comm.name(), &options));
    match result {
        Ok(_) => ExitCode::SUCCESS,
        Err(failure) => {
            // With one write, because all ranks write to the same stream.
            let line = format!("error: {failure}\n");
            let _ = std::io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    }
}
