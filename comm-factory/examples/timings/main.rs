//! Times the collectives between these ranks, on any backend.
//!
//! ```text
//! comm-run -n 4 -- timings barrier allreduce:32 allgatherv:3200000
//! timing,barrier,0,20000,6.113,9.870,
//! ```
//!
//! Prints a line per row: the call, its bytes, the number of calls, the median and the 99th percentile over them in microseconds, and
//! for `broadcast` the span. Every rank times every call; a call takes as long as on its slowest rank.
//!
//! | row | what is timed |
//! |---|---|
//! | `broadcast` | one broadcast after an untimed barrier, because with other libraries its root would run ahead. It starts at a tick of a clock that all ranks share, with a jitter; its span is the time from the root's entry to the last return, over the calls that all ranks started at the same tick |
//! | `broadcasts` | broadcasts without that barrier: ours synchronise |
//! | `exchange` | the exchange of a gathered region after an untimed fence |
//! | `allgatherv-read`, `exchange-read` | the call, and then every rank adds up all gathered bytes |
//! | `exact-sum` | the reduction of one sum of `comm-exact` |
//! | `copy` | no collective: all ranks at once copy that many bytes in their own memory, which shows the speed of the memory |
//! | `start-up` | as the first row, one barrier and nothing else. It prints no line: the program that started the launcher measures the time |
//!
//! The bytes are those of the vector for `allreduce` and `broadcast`, and of the gathered result for `allgatherv` and `exchange`.
//!
//! `cargo xtask bench` runs this program and other libraries, which it measures the same way.

use std::num::NonZeroUsize;
use std::process::ExitCode;

use clap::Parser;
use comm_factory::CommBackend;
use comm_factory::api::{Communicator, SharedMemoryProvider};

mod call;
mod clock;
mod figure;
mod row;
mod tick;
mod timing;

use row::{Op, Row};
use timing::Failure;

/// Times the collectives between the ranks that comm-run, mpiexec or srun started.
#[derive(Debug, Parser)]
#[command(name = "timings")]
struct Options {
    /// About how long to call each row
    #[arg(long, value_name = "SECONDS", default_value_t = 0.3, value_parser = seconds)]
    seconds: f64,
    /// Make exactly this many calls of each row and no others but the first: to count instructions
    #[arg(long, value_name = "N", conflicts_with = "seconds")]
    calls: Option<NonZeroUsize>,
    /// CALL or CALL:BYTES, with barrier, allreduce, broadcast, broadcasts, allgatherv, allgatherv-read, exchange, exchange-read, exact-sum, copy or start-up for CALL; without any, a usual set
    #[arg(value_name = "ROW")]
    rows: Vec<Row>,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds".to_owned()),
    }
}

fn main() -> ExitCode {
    let mut options = Options::parse();
    if options.rows.is_empty() {
        options.rows = Row::usual();
    }
    match start(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("timings: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Takes the backend out of the enum, so that only the backend is timed.
fn start(options: &Options) -> Result<(), Failure> {
    match comm_factory::create_communicator()? {
        #[cfg(feature = "mpi")]
        CommBackend::Mpi(comm) => all(&comm, options),
        #[cfg(feature = "tcp")]
        CommBackend::Tcp(comm) => all(&comm, options),
        #[cfg(feature = "shm")]
        CommBackend::Shm(comm) => all(&comm, options),
        CommBackend::Local(comm) => all(&comm, options),
    }
}

fn all<C: Communicator + SharedMemoryProvider>(comm: &C, options: &Options) -> Result<(), Failure> {
    if options.rows.first().map(|row| row.op) == Some(Op::StartUp) {
        return Ok(comm.barrier()?);
    }
    if options.calls.is_none() {
        // Otherwise the first row would include the time in which the system spreads the new ranks over its processors.
        timing::settle(comm, options.seconds)?;
    }
    for &row in &options.rows {
        let figure = timing::of(comm, row, options)?;
        if comm.rank() == 0 {
            println!("{figure}");
        }
    }
    Ok(())
}
