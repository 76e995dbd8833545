//! Estimates the mean distance between two random points of the unit square by Monte Carlo.
//!
//! Prints the same bits with any number of ranks: the samples are divided into blocks, each block has its own generator and sum, and
//! the sums are added in the order of the blocks.

use std::error::Error;
use std::process::ExitCode;

use comm_factory::api::{Communicator, CommunicatorExt};

const BLOCKS: usize = 60;
const SAMPLES: u32 = 10_000;

fn main() -> ExitCode {
    let Err(error) = mean() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("mean: {error}");
    ExitCode::FAILURE
}

fn mean() -> Result<(), Box<dyn Error>> {
    let comm = comm_factory::create_communicator()?;
    let first = |rank: usize| BLOCKS * rank / comm.size();
    let mine = first(comm.rank())..first(comm.rank() + 1);
    let mine: Vec<f64> = mine.map(sum).collect();
    // Not an allreduce of one sum per rank: its last bits would depend on the number of ranks.
    let (sums, _) = comm.allgather_vec(&mine)?;
    let means = sums.iter().map(|sum| sum / f64::from(SAMPLES));
    let mean = means.sum::<f64>() / f64::from(u32::try_from(BLOCKS)?);
    if comm.rank() == 0 {
        println!("mean distance {mean:.6}, bits {:016x}", mean.to_bits());
    }
    Ok(())
}

/// Adds up the distances of one block.
fn sum(block: usize) -> f64 {
    let mut random = fastrand::Rng::with_seed(block as u64);
    let mut apart = || random.f64() - random.f64();
    let distances = (0..SAMPLES).map(|_| (apart().powi(2) + apart().powi(2)).sqrt());
    distances.sum()
}
