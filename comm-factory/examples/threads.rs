//! Adds up numbers on two threads at once, each with its own communicator.
//!
//! All ranks create their communicators in the same order, then give them to their threads. Two threads cannot use one communicator
//! at once: the second one gets an error. Prints the same with any number of ranks.

use std::error::Error;
use std::process::ExitCode;
use std::thread;

use comm_factory::CommBackend;
use comm_factory::api::{CommError, Communicator, CommunicatorExt, ReduceOp};

const NUMBERS: u64 = 10_000;

fn main() -> ExitCode {
    let Err(error) = both() else {
        return ExitCode::SUCCESS;
    };
    eprintln!("threads: {error}");
    ExitCode::FAILURE
}

fn both() -> Result<(), Box<dyn Error>> {
    let first = comm_factory::create_communicator()?;
    let second = comm_factory::create_communicator()?;
    let [sum, squares] = thread::scope(|scope| {
        let sum = scope.spawn(|| add(&first, 200, |number| number));
        let squares = scope.spawn(|| add(&second, 300, |number| number * number));
        [sum.join(), squares.join()]
    });
    let failed = |_| "a thread panicked";
    let (sum, squares) = (sum.map_err(failed)??, squares.map_err(failed)??);
    if first.rank() == 0 {
        println!("numbers below {NUMBERS}: {sum}, their squares: {squares}");
    }
    Ok(())
}

/// Adds up the terms of all ranks, in this number of parts.
fn add(comm: &CommBackend, parts: u64, term: impl Fn(u64) -> u64) -> Result<u64, CommError> {
    let mut total = 0;
    for part in 0..parts {
        let numbers = NUMBERS * part / parts..NUMBERS * (part + 1) / parts;
        let mine = numbers.skip(comm.rank()).step_by(comm.size());
        total += comm.allreduce_scalar(mine.map(&term).sum::<u64>(), ReduceOp::Sum)?;
    }
    Ok(total)
}
