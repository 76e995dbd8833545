//! Measures what this crate adds to direct calls of ferrompi, and what the order of floats costs.
//!
//! ```text
//! mpiexec -n 2 target/release/examples/measure [direct|ordered] [ROUNDS]
//! ```
//!
//! Contenders take turns in rounds; a row shows the median over the rounds of the slowest rank,
//! and the median of the ratios within a round. With `count CALL BYTES` it makes 1000 calls and
//! nothing else, to count instructions.

use std::hint::black_box;
use std::time::{Duration, Instant};

use comm_api::{Communicator, CommunicatorExt, ReduceOp};
use comm_mpi::{FerrompiBackend, MpiConfig};

type Failure = Box<dyn std::error::Error>;

/// About how long one contender runs in one round.
const TURN: Duration = Duration::from_millis(10);

const SIZES: [usize; 9] = [
    8,
    64,
    1 << 10,
    8 << 10,
    32 << 10,
    64 << 10,
    256 << 10,
    1 << 20,
    16 << 20,
];

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |at: usize| arguments.get(at).map(String::as_str);
    let comm = FerrompiBackend::init(MpiConfig::from_env()?)?;
    if argument(0) == Some("count") {
        let bytes = argument(2).unwrap_or("8").parse()?;
        return count(&comm, argument(1).unwrap_or("barrier"), bytes);
    }
    let rounds = argument(1).unwrap_or("15").parse()?;
    if argument(0) != Some("ordered") {
        direct(&comm, rounds)?;
    }
    if argument(0) != Some("direct") {
        ordered(&comm, rounds)?;
    }
    Ok(())
}

/// Gives the bytes a rank contributes to an `allgatherv` of `bytes` in all, and the lists.
fn layout(size: usize, bytes: usize) -> (usize, Vec<usize>, Vec<usize>, Vec<i32>, Vec<i32>) {
    let each = (bytes / 8 / size).max(1);
    let displs: Vec<usize> = (0..size).map(|rank| rank * each).collect();
    let narrow = |list: &[usize]| list.iter().filter_map(|&n| i32::try_from(n).ok()).collect();
    let counts = vec![each; size];
    let (counts32, displs32) = (narrow(&counts), narrow(&displs));
    (each, counts, displs, counts32, displs32)
}

fn direct(comm: &FerrompiBackend, rounds: usize) -> Result<(), Failure> {
    let mpi = comm.direct();
    title(comm, "call", "ferrompi", "comm-mpi");
    let row = |name: String, a: &mut Turn<'_>, b: &mut Turn<'_>| compare(comm, &name, rounds, a, b);
    row("barrier".into(), &mut || Ok(mpi.barrier()?), &mut || {
        Ok(comm.barrier()?)
    })?;
    for bytes in SIZES {
        let (mut a, mut b) = (vec![1.0_f64; bytes / 8], vec![1.0_f64; bytes / 8]);
        row(
            format!("broadcast {}", shown(bytes)),
            &mut || Ok(mpi.broadcast(&mut a, 0)?),
            &mut || Ok(comm.broadcast(&mut b, 0)?),
        )?;
    }
    for bytes in SIZES {
        let (each, counts, displs, counts32, displs32) = layout(comm.size(), bytes);
        let send = vec![1.0_f64; each];
        let mut a = vec![0.0; each * comm.size()];
        let mut b = a.clone();
        row(
            format!("allgatherv {}", shown(bytes)),
            &mut || Ok(mpi.allgatherv(&send, &mut a, &counts32, &displs32)?),
            &mut || Ok(comm.allgatherv(&send, &mut b, &counts, &displs)?),
        )?;
    }
    for bytes in SIZES {
        let send = vec![1_u64; bytes / 8];
        let (mut a, mut b) = (send.clone(), send.clone());
        row(
            format!("allreduce of integers {}", shown(bytes)),
            &mut || Ok(mpi.allreduce(&send, &mut a, ferrompi::ReduceOp::Sum)?),
            &mut || Ok(comm.allreduce(&send, &mut b, ReduceOp::Sum)?),
        )?;
    }
    Ok(())
}

fn ordered(comm: &FerrompiBackend, rounds: usize) -> Result<(), Failure> {
    let mpi = comm.direct();
    title(comm, "allreduce of f64", "native", "ordered");
    for bytes in SIZES {
        let send = vec![0.1_f64; bytes / 8];
        let (mut a, mut b) = (send.clone(), send.clone());
        compare(
            comm,
            &shown(bytes),
            rounds,
            &mut || Ok(mpi.allreduce(&send, &mut a, ferrompi::ReduceOp::Sum)?),
            &mut || Ok(comm.allreduce(&send, &mut b, ReduceOp::Sum)?),
        )?;
    }
    Ok(())
}

/// One call of one contender.
type Turn<'a> = dyn FnMut() -> Result<(), Failure> + 'a;

fn title(comm: &FerrompiBackend, what: &str, a: &str, b: &str) {
    if comm.rank() == 0 {
        println!(
            "\n{what:<34}{a:>14}{b:>14}   ratio   ({} ranks, us)",
            comm.size()
        );
    }
}

fn compare(
    comm: &FerrompiBackend,
    name: &str,
    rounds: usize,
    a: &mut Turn<'_>,
    b: &mut Turn<'_>,
) -> Result<(), Failure> {
    // Both at the same number of calls, from a first look at the slower of the two.
    let first = time(comm, 3, a)?.max(time(comm, 3, b)?);
    let first = Duration::from_secs_f64(first).as_nanos().max(10);
    let calls = u32::try_from(TURN.as_nanos() / first)?.clamp(3, 20_000);
    let calls = comm.broadcast_value(calls, 0)?;
    let mut times: Vec<(f64, f64)> = Vec::new();
    for round in 0..rounds {
        // Who begins alternates, too.
        times.push(if round % 2 == 0 {
            let first = time(comm, calls, a)?;
            (first, time(comm, calls, b)?)
        } else {
            let first = time(comm, calls, b)?;
            (time(comm, calls, a)?, first)
        });
    }
    if comm.rank() == 0 {
        let [a, b, ratio] = [
            median(times.iter().map(|t| t.0 * 1e6)),
            median(times.iter().map(|t| t.1 * 1e6)),
            median(times.iter().map(|t| t.1 / t.0)),
        ];
        println!("{name:<34}{a:>14.3}{b:>14.3}{ratio:>8.3}");
    }
    Ok(())
}

/// Gives the time of one call on the slowest rank.
fn time(comm: &FerrompiBackend, calls: u32, call: &mut Turn<'_>) -> Result<f64, Failure> {
    comm.barrier()?;
    let start = Instant::now();
    for _ in 0..calls {
        black_box(call()?);
    }
    let each = start.elapsed().as_secs_f64() / f64::from(calls);
    Ok(comm.allreduce_scalar(each, ReduceOp::Max)?)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn shown(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Makes 1000 calls of one kind, through this crate or, with a name that begins with `mpi-`,
/// directly.
fn count(comm: &FerrompiBackend, call: &str, bytes: usize) -> Result<(), Failure> {
    let mpi = comm.direct();
    let (each, counts, displs, counts32, displs32) = layout(comm.size(), bytes);
    let (send, ints) = (vec![0.1_f64; bytes / 8], vec![1_u64; bytes / 8]);
    let mut recv = vec![0.0; (bytes / 8).max(each * comm.size())];
    let mut sums = ints.clone();
    for _ in 0..1000 {
        match call {
            "barrier" => comm.barrier()?,
            "mpi-barrier" => mpi.barrier()?,
            "broadcast" => comm.broadcast(&mut recv, 0)?,
            "mpi-broadcast" => mpi.broadcast(&mut recv, 0)?,
            "allgatherv" => comm.allgatherv(&send[..each], &mut recv, &counts, &displs)?,
            "mpi-allgatherv" => mpi.allgatherv(&send[..each], &mut recv, &counts32, &displs32)?,
            "allreduce" => comm.allreduce(&ints, &mut sums, ReduceOp::Sum)?,
            "mpi-allreduce" => mpi.allreduce(&ints, &mut sums, ferrompi::ReduceOp::Sum)?,
            _ => return Err(format!("there is no call {call}").into()),
        }
    }
    Ok(())
}
