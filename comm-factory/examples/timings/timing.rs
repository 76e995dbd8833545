//! Calls a row as often as the time allows, and sums it up.

use std::fmt::{self, Display, Formatter};

use comm_factory::api::{Communicator, CommunicatorExt, ReduceOp};

use super::call::Call;
use super::clock::now;
use super::row::{Op, Row};

pub(crate) type Failure = Box<dyn std::error::Error>;

/// More calls than this do not make a median better.
const MOST_CALLS: usize = 20_000;
/// Fewer calls than this make none.
const FEWEST_CALLS: usize = 5;
/// The part of the time that goes into finding out how long a call takes.
const LOOK: f64 = 0.2;

/// Tells how long a row took.
pub(crate) struct Timing {
    row: Row,
    /// Nanoseconds of the slowest rank, sorted.
    slowest: Vec<u64>,
    /// Nanoseconds from the root's entry to the last return, sorted; of broadcasts only.
    span: Option<Vec<u64>>,
}

/// Times a row on all ranks.
pub(crate) fn of<C: Communicator>(comm: &C, row: Row, seconds: f64) -> Result<Timing, Failure> {
    let mut call = Call::new(comm, row);
    call.make()?;
    if !call.is_right() {
        let (rank, op) = (comm.rank(), row.op.name());
        return Err(format!("rank {rank}: {op} of {} bytes is wrong", row.bytes).into());
    }
    let calls = calls(comm, row, seconds, &mut call)?;
    let mut entries = vec![0; calls];
    let mut returns = vec![0; calls];
    comm.barrier()?;
    for (entry, back) in entries.iter_mut().zip(&mut returns) {
        if row.op.apart() {
            comm.barrier()?;
        }
        *entry = now();
        call.make()?;
        *back = now();
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
        // Right on rank 0 only: it is the root, and the one that prints.
        let mut span = since(&last);
        span.sort_unstable();
        Some(span)
    } else {
        None
    };
    Ok(Timing { row, slowest, span })
}

/// Agrees on how many calls fill the time, by the clock of rank 0. What it looks at warms up as well.
fn calls<C: Communicator>(
    comm: &C,
    row: Row,
    seconds: f64,
    call: &mut Call<'_, C>,
) -> Result<usize, Failure> {
    let start = now();
    let mut made = 0_u32;
    loop {
        // Asking after every call would be most of what is timed, unless calls are long.
        let turn = if made < 2 || row.bytes > 1 << 20 {
            1
        } else {
            10
        };
        for _ in 0..turn {
            if row.op.apart() {
                comm.barrier()?;
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

/// Gives microseconds at a part of the sorted times.
fn at(times: &[u64], part: (usize, usize)) -> f64 {
    let place = times.len() * part.0 / part.1;
    seconds_of(times.get(place).copied().unwrap_or_default()) * 1e6
}

impl Display for Timing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { row, slowest, span } = self;
        let (op, bytes, calls) = (row.op.name(), row.bytes, slowest.len());
        let (median, p99) = (at(slowest, (1, 2)), at(slowest, (99, 100)));
        write!(f, "timing,{op},{bytes},{calls},{median:.3},{p99:.3},")?;
        match span {
            Some(span) => write!(f, "{:.3}", at(span, (1, 2))),
            None => Ok(()),
        }
    }
}
