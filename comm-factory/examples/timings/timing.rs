//! Calls a row as often as the time allows, and computes its figure.

use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp, SharedMemoryProvider};

use super::Options;
use super::call::Call;
use super::clock::now;
use super::figure::Figure;
use super::row::{Op, Row};
use super::tick;

pub(crate) type Failure = Box<dyn std::error::Error>;

/// More calls than this do not improve a median.
const MOST_CALLS: usize = 20_000;
/// Fewer calls than this give no median.
const FEWEST_CALLS: usize = 5;
/// The fraction of the time that is spent on finding out how long a call takes.
const LOOK: f64 = 0.2;

/// Calls barriers until the time is over, by the clock of rank 0.
pub(crate) fn settle<C: Communicator>(comm: &C, seconds: f64) -> Result<(), Failure> {
    let start = now();
    loop {
        for _ in 0..10 {
            comm.barrier()?;
        }
        let over = seconds_of(now().saturating_sub(start)) >= seconds;
        if comm.broadcast_value(u8::from(over), 0)? == 1 {
            return Ok(());
        }
    }
}

/// Times a row on all ranks. The span is right only on rank 0, which is the root and prints the line.
pub(crate) fn of<C: Communicator + SharedMemoryProvider>(
    comm: &C,
    row: Row,
    options: &Options,
) -> Result<Figure, Failure> {
    let mut call = Call::new(comm, row)?;
    call.make()?;
    if !call.is_right() {
        return Err(format!("rank {}: {row} is wrong", comm.rank()).into());
    }
    let calls = match options.calls {
        Some(calls) => calls.get(),
        None => calls_for(comm, row, options.seconds, &mut call)?,
    };
    // A count of instructions should not include those of waiting.
    let together = row.op == Op::Broadcast && options.calls.is_none();
    let mut entries = vec![0; calls];
    let mut returns = vec![0; calls];
    let mut ticks = vec![0; calls];
    comm.barrier()?;
    for number in 0..calls {
        call.prepare()?;
        if together {
            ticks[number] = tick::wait(comm.rank(), comm.size(), number);
        }
        entries[number] = now();
        call.make()?;
        returns[number] = now();
    }
    let since = |ends: &[u64]| -> Vec<u64> {
        let pairs = ends.iter().zip(&entries);
        pairs
            .map(|(end, entry)| end.saturating_sub(*entry))
            .collect()
    };
    let mut slowest = vec![0; calls];
    comm.allreduce(&since(&returns), &mut slowest, ReduceOp::Max)?;
    slowest.sort_unstable();
    let span = if row.op == Op::Broadcast {
        let mut last = vec![0; calls];
        comm.allreduce(&returns, &mut last, ReduceOp::Max)?;
        let mut spans = of_same_ticks(comm, &ticks, since(&last))?;
        spans.sort_unstable();
        Some(at(&spans, (1, 2)))
    } else {
        None
    };
    Ok(Figure {
        row,
        calls,
        median: at(&slowest, (1, 2)),
        p99: at(&slowest, (99, 100)),
        span,
    })
}

/// Keeps the times of the calls that all ranks started at the same tick, or all times if those are too few.
fn of_same_ticks<C: Communicator>(
    comm: &C,
    ticks: &[u64],
    times: Vec<u64>,
) -> Result<Vec<u64>, Failure> {
    let mut bounds = [vec![0; ticks.len()], vec![0; ticks.len()]];
    for (bound, op) in bounds.iter_mut().zip([ReduceOp::Min, ReduceOp::Max]) {
        comm.allreduce(ticks, bound, op)?;
    }
    let [first, last] = bounds;
    let together = first.iter().zip(&last).map(|(first, last)| first == last);
    let kept: Vec<u64> = times
        .iter()
        .zip(together)
        .filter_map(|(&time, together)| together.then_some(time))
        .collect();
    Ok(if kept.len() < FEWEST_CALLS {
        times
    } else {
        kept
    })
}

/// Agrees on how many calls fill the time, by the clock of rank 0. This also warms up the code.
fn calls_for<C: Communicator + SharedMemoryProvider>(
    comm: &C,
    row: Row,
    seconds: f64,
    call: &mut Call<'_, C>,
) -> Result<usize, Failure> {
    // Some ranks are still checking the result of the first call.
    comm.barrier()?;
    let start = now();
    let mut made = 0_u32;
    loop {
        // Agreeing after every call would take most of the time, unless calls are long.
        let turn = if made < 2 || (row.bytes > 1 << 20 && row.op != Op::Exchange) {
            1
        } else {
            10
        };
        for _ in 0..turn {
            call.prepare()?;
            if row.op == Op::Broadcast {
                tick::wait(comm.rank(), comm.size(), 0);
            }
            call.make()?;
        }
        made += turn;
        let spent = now().saturating_sub(start);
        let enough = seconds_of(spent) >= seconds * LOOK || made >= 2000;
        let wanted = (seconds * f64::from(made) / seconds_of(spent.max(1))).min(1e9);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and a billion"
        )]
        let wanted = (wanted as usize).clamp(FEWEST_CALLS, MOST_CALLS);
        let told = if enough && made >= 2 { wanted } else { 0 };
        match comm.broadcast_value(told, 0)? {
            0 => {}
            calls => return Ok(calls),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "hours, not years")]
fn seconds_of(nanos: u64) -> f64 {
    nanos as f64 * 1e-9
}

/// Returns the microseconds at a quantile of the sorted times.
fn at(times: &[u64], part: (usize, usize)) -> f64 {
    let place = times.len() * part.0 / part.1;
    seconds_of(times.get(place).copied().unwrap_or_default()) * 1e6
}
