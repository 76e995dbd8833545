//! Distributes some work and prints the exact bits of the results.
//!
//! Prints the same on every backend: alone, under `comm-run`, `mpiexec` or `srun`, or with the variables of a launcher.
//! Only the sum of shares depends on the number of ranks, because the shares do.

use std::error::Error;
use std::process::ExitCode;

use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp};
use comm_factory::api::{SharedMemoryProvider, SharedRegion};

/// How many square roots the ranks compute together.
const ROOTS: usize = 1000;

fn main() -> ExitCode {
    match hello() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hello: {error}");
            ExitCode::FAILURE
        }
    }
}

fn hello() -> Result<(), Box<dyn Error>> {
    let comm = comm_factory::create_communicator()?;
    let (rank, size) = (comm.rank(), comm.size());

    // Every rank computes its share, and every rank gets all shares.
    let first = |rank: usize| ROOTS * rank / size;
    let all = (0_u32..).map(|i| f64::from(i).sqrt());
    let mine: Vec<f64> = all.take(first(rank + 1)).skip(first(rank)).collect();
    let counts: Vec<usize> = (0..size).map(|r| first(r + 1) - first(r)).collect();
    let displs: Vec<usize> = (0..size).map(first).collect();
    let mut roots = vec![0.0; ROOTS];
    comm.allgatherv(&mine, &mut roots, &counts, &displs)?;
    let sum: f64 = roots.iter().sum();

    // The sum of the shares has the bits of a fold in rank order.
    let shares = comm.allreduce_scalar(mine.iter().sum::<f64>(), ReduceOp::Sum)?;
    let largest = comm.allreduce_scalar(mine.iter().copied().fold(0.0, f64::max), ReduceOp::Max)?;
    let last = comm.broadcast_value(mine.last().copied().unwrap_or_default(), size - 1)?;

    // Whether there is one copy per node or one per rank, its contents are the same.
    let mut region = comm.create_shared_region::<f64>(ROOTS)?;
    if comm.is_leader() {
        region.as_mut_slice().copy_from_slice(&roots);
    }
    region.fence()?;
    let table = region.as_slice().iter();
    let table = table.fold(0_u64, |bits, root| bits.rotate_left(1) ^ root.to_bits());

    let [sum, shares, largest, last] = [sum, shares, largest, last].map(f64::to_bits);
    println!(
        "rank {rank} of {size}: sum {sum:016x}, of shares {shares:016x}, largest {largest:016x}, \
         last {last:016x}, table {table:016x}"
    );
    Ok(())
}
