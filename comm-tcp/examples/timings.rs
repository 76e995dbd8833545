//! Prints what the collectives cost between these ranks, in microseconds: the median over the calls
//! of the slowest rank in each.
//!
//! Start it once per rank with the variables of `TcpConfig::from_env`, or through `comm-run`.

use std::error::Error;
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, CommunicatorExt, ReduceOp};
use comm_tcp::{TcpBackend, TcpConfig};

/// How long one row is measured.
const BUDGET: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let comm = TcpBackend::connect(TcpConfig::from_env()?)?;
    let most: usize = std::env::args()
        .nth(1)
        .map_or(Ok(20_000_000), |most| most.parse())?;
    row(&comm, "barrier", 0, || comm.barrier())?;
    for bytes in [32, 8 << 10, 1 << 20, 16 << 20]
        .into_iter()
        .filter(|&b| b <= most)
    {
        let send = vec![1.0_f64; bytes / 8];
        let mut recv = vec![0.0; bytes / 8];
        row(&comm, "allreduce", bytes, || {
            comm.allreduce(&send, &mut recv, ReduceOp::Sum)
        })?;
    }
    for bytes in [8, 20_000_000].into_iter().filter(|&b| b <= most) {
        let mut buf = vec![0_u8; bytes];
        row(&comm, "broadcast", bytes, || comm.broadcast(&mut buf, 0))?;
    }
    let sizes = [1 << 10, 64 << 10, 3_200_000, 64_000_000, 206_000_000];
    for bytes in sizes.into_iter().filter(|&b| b <= most) {
        let (size, each) = (comm.size(), bytes / comm.size());
        let send = vec![1_u8; each];
        let mut recv = vec![0; each * size];
        let counts = vec![each; size];
        let displs: Vec<usize> = (0..size).map(|rank| rank * each).collect();
        row(&comm, "allgatherv", bytes, || {
            comm.allgatherv(&send, &mut recv, &counts, &displs)
        })?;
    }
    Ok(())
}

/// Measures one call, back to back.
#[expect(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "a table for people"
)]
fn row(
    comm: &TcpBackend,
    name: &str,
    bytes: usize,
    mut call: impl FnMut() -> Result<(), CommError>,
) -> Result<(), CommError> {
    for _ in 0..3 {
        call()?;
    }
    let start = Instant::now();
    call()?;
    let once = comm.allreduce_scalar(start.elapsed().as_nanos() as u64, ReduceOp::Max)?;
    let rounds = (BUDGET.as_nanos() as u64 / once.max(1)).clamp(7, 20_000);
    let mut times = Vec::new();
    for _ in 0..rounds {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_nanos() as u64);
    }
    let mut slowest = vec![0; times.len()];
    comm.allreduce(&times, &mut slowest, ReduceOp::Max)?;
    slowest.sort_unstable();
    if comm.rank() == 0 {
        let median = slowest[slowest.len() / 2] as f64 / 1000.0;
        println!("{name:>10} {bytes:>11} {median:>12.1}");
    }
    Ok(())
}
