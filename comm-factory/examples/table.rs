//! Finds the longest Collatz chain of many numbers, with a lookup table that is in memory once per node.
//!
//! One rank of each node fills the table, all of them read it. Prints the same with any number of ranks.

use std::error::Error;
use std::process::ExitCode;

use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp};
use comm_factory::api::{SharedMemoryProvider, SharedRegion};

const TABLE: usize = 50_000;
const NUMBERS: usize = 300_000;

fn main() -> ExitCode {
    let Err(error) = longest() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("table: {error}");
    ExitCode::FAILURE
}

fn longest() -> Result<(), Box<dyn Error>> {
    let comm = comm_factory::create_communicator()?;
    let mut table = comm.create_shared_region::<u32>(TABLE)?;
    if comm.is_leader() {
        for (number, entry) in table.as_mut_slice().iter_mut().enumerate() {
            *entry = steps(number, &[]);
        }
    }
    table.fence()?; // now all ranks of the node can read what the leader wrote
    // Steps in the upper half of a word, the number in the lower: the largest word is the longest chain.
    let chain = |number| u64::from(steps(number, table.as_slice())) << 32 | number as u64;
    let numbers = (comm.rank()..NUMBERS).step_by(comm.size());
    let best = comm.allreduce_scalar(numbers.map(chain).max().unwrap_or(0), ReduceOp::Max)?;
    if comm.rank() == 0 {
        let (number, steps) = (best & 0xffff_ffff, best >> 32);
        println!("{number} takes {steps} steps to 1, no number below {NUMBERS} takes more");
    }
    Ok(())
}

/// Counts the steps from `number` to 1; a chain that reaches the table ends there.
fn steps(number: usize, table: &[u32]) -> u32 {
    match table.get(number) {
        Some(known) => *known,
        None if number < 2 => 0,
        None if number.is_multiple_of(2) => 1 + steps(number / 2, table),
        None => 1 + steps(3 * number + 1, table),
    }
}
