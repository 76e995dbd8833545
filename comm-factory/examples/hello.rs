//! Says which rank this is, and adds up all of them.
//!
//! Prints the same on every backend: alone, under `comm-run`, or with the variables of a launcher.

use std::error::Error;

use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp};

fn main() -> Result<(), Box<dyn Error>> {
    let comm = comm_factory::create_communicator()?;
    let (rank, size) = (comm.rank(), comm.size());
    let sum = comm.allreduce_scalar(u64::try_from(rank)? + 1, ReduceOp::Sum)?;
    let thirds = comm.allreduce_scalar(f64::from(u32::try_from(rank)? + 1) / 3.0, ReduceOp::Sum)?;
    println!("rank {rank} of {size}: sum {sum}, of thirds {thirds:.17}");
    Ok(())
}
