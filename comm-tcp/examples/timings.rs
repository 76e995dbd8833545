//! Prints what the collectives cost between these ranks, in microseconds: the median over the calls
//! of the slowest rank in each, and the median of the time from rank 0's entry to the last return,
//! which means something where all ranks share a clock.
//!
//! Start it once per rank with the variables of `TcpConfig::from_env`, or through `comm-run`.
//! Arguments, all optional: the most and the least bytes of a call, and the seconds per row.

use std::error::Error;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use comm_api::{CommError, Communicator, CommunicatorExt, ReduceOp};
use comm_tcp::{TcpBackend, TcpConfig};

/// A call of this time or longer is slow: a few of them say enough.
const SLOW: Duration = Duration::from_millis(50);

/// What to measure: the least and the most bytes of a call, and how long.
struct Plan {
    most: usize,
    least: usize,
    budget: Duration,
}

impl Plan {
    fn from_args() -> Result<Self, Box<dyn Error>> {
        let mut args = std::env::args().skip(1);
        let most = args.next().map_or(Ok(20_000_000), |most| most.parse())?;
        let least = args.next().map_or(Ok(0), |least| least.parse())?;
        let seconds = args.next().map_or(Ok(0.3), |seconds| seconds.parse())?;
        let budget = Duration::try_from_secs_f64(seconds)?;
        Ok(Self {
            most,
            least,
            budget,
        })
    }

    /// Keeps the sizes that are asked for.
    fn sizes(&self, sizes: &[usize]) -> Vec<usize> {
        let asked = |&&size: &&usize| size >= self.least && size <= self.most;
        sizes.iter().filter(asked).copied().collect()
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let plan = Plan::from_args()?;
    let comm = TcpBackend::connect(TcpConfig::from_env()?)?;
    for bytes in plan.sizes(&[0]) {
        row(&comm, &plan, ("barrier", bytes), || {
            timed(|| comm.barrier())
        })?;
    }
    for bytes in plan.sizes(&[32, 8 << 10, 1 << 20, 16 << 20]) {
        let send = vec![1.0_f64; bytes / 8];
        let mut recv = vec![0.0; bytes / 8];
        row(&comm, &plan, ("allreduce", bytes), || {
            timed(|| comm.allreduce(&send, &mut recv, ReduceOp::Sum))
        })?;
    }
    for bytes in plan.sizes(&[8, 20_000_000]) {
        let mut buf = vec![0_u8; bytes];
        // After a barrier, as is the custom: elsewhere a broadcast does not synchronise, and without
        // one its root would run ahead.
        row(&comm, &plan, ("broadcast", bytes), || {
            comm.barrier()?;
            timed(|| comm.broadcast(&mut buf, 0))
        })?;
    }
    for bytes in plan.sizes(&[1 << 10, 64 << 10, 3_200_000, 64_000_000, 206_000_000]) {
        let (size, each) = (comm.size(), bytes / comm.size());
        let send = vec![1_u8; each];
        let mut recv = vec![0; each * size];
        let counts = vec![each; size];
        let displs: Vec<usize> = (0..size).map(|rank| rank * each).collect();
        row(&comm, &plan, ("allgatherv", bytes), || {
            timed(|| comm.allgatherv(&send, &mut recv, &counts, &displs))
        })?;
    }
    Ok(())
}

/// Gives when a call began and ended.
fn timed(call: impl FnOnce() -> Result<(), CommError>) -> Result<(u64, u64), CommError> {
    let begin = now();
    call()?;
    Ok((begin, now()))
}

/// Gives the time in nanoseconds, by a clock that the processes of a machine share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

/// Measures one call, back to back.
#[expect(clippy::print_stdout, reason = "a table for people")]
fn row(
    comm: &TcpBackend,
    plan: &Plan,
    (name, bytes): (&str, usize),
    mut call: impl FnMut() -> Result<(u64, u64), CommError>,
) -> Result<(), CommError> {
    for _ in 0..3 {
        call()?;
    }
    let (begin, end) = call()?;
    let once = comm.allreduce_scalar(end.saturating_sub(begin), ReduceOp::Max)?;
    let once = Duration::from_nanos(once);
    let least = if once > SLOW { 3 } else { 7 };
    let rounds = plan.budget.as_nanos() / once.as_nanos().max(1);
    let rounds = usize::try_from(rounds).map_or(20_000, |rounds| rounds.clamp(least, 20_000));
    let (mut begins, mut ends) = (Vec::with_capacity(rounds), Vec::with_capacity(rounds));
    for _ in 0..rounds {
        let (begin, end) = call()?;
        begins.push(begin);
        ends.push(end);
    }
    let took = |ends: &[u64]| -> Vec<u64> {
        let pairs = ends.iter().zip(&begins);
        pairs
            .map(|(end, begin)| end.saturating_sub(*begin))
            .collect()
    };
    let (mut slowest, mut latest) = (vec![0; rounds], vec![0; rounds]);
    comm.allreduce(&took(&ends), &mut slowest, ReduceOp::Max)?;
    comm.allreduce(&ends, &mut latest, ReduceOp::Max)?;
    if comm.rank() == 0 {
        let (slowest, span) = (median(slowest), median(took(&latest)));
        println!("{name:>10} {bytes:>11} {slowest:>12.1} {span:>12.1}");
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a table for people")]
fn median(mut times: Vec<u64>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1000.0
}
