//! Times the collectives between these ranks, on whichever backend they have.
//!
//! ```text
//! comm-run -n 4 -- timings barrier allreduce:32 allgatherv:3200000
//! timing,barrier,0,20000,6.113,9.870,
//! ```
//!
//! A line per row: call, bytes, how many calls, the median and the 99th percentile over them in microseconds, and for
//! `broadcast` the span. Every rank times every call; the slowest rank's time is the call's. A broadcast follows an
//! untimed barrier, without which elsewhere its root would run ahead, and starts at a tick of the clock, with a jitter; its span is the
//! time from the root's entry to the last return, of the calls that all ranks started at the same tick. That needs a clock that all ranks
//! share. `broadcasts` follow each other without that barrier: ours synchronise. The bytes are the vector's for
//! `allreduce` and `broadcast`, and all that is gathered for `allgatherv` and `exchange`, which is that of a gathered region after an
//! untimed fence. After `allgatherv-read` and `exchange-read` every rank has also added up all that is there. `exact-sum` reduces one
//! sum of `comm-exact`. `copy` is no collective: each rank copies that many bytes in its own memory, all at once, which is as
//! fast as memory is here. `start-up`, if it is the first row, is one barrier and nothing else, not even a line: whoever started the launcher has the clock.
//!
//! `cargo xtask bench` runs this beside other libraries, which are measured the same way.

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

/// Takes the backend out of the enum, so that nothing but the backend is timed.
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
        // Whoever comes first would pay for a machine that has just started all this, and has yet to spread it over its processors.
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
