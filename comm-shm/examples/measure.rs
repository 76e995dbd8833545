//! Measures the collectives among real processes, as a table of comma-separated values.
//!
//! ```text
//! cargo run --release -p comm-shm --example measure -- --ranks 2 --seconds 0.4
//! label,transport,ranks,op,bytes,median_us,p99_us,mean_us,rank0_median_us,iters
//! ```
//!
//! Every rank times every call; the slowest rank's time counts, per call; median and p99 are over
//! the calls. `broadcast` is preceded by an untimed barrier, so that its own latency is measured;
//! `broadcast_span` is the time from the root's entry to the last rank's return, which counts a
//! rank that came late and found everything there.
//! `bytes` is the vector for `allreduce` and `broadcast`, all that is gathered for `allgatherv`.
//! The first call of every row is checked. One round is one run of this program: to compare with
//! something else, alternate the two and take medians over rounds.
#![allow(
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "a program that prints times"
)]

use std::process::{Command, ExitCode};
use std::time::Instant;

use comm_api::{CommError, Communicator, CommunicatorExt, ReduceOp};
use comm_shm::{ShmBackend, ShmConfig};

const ROWS: [(&str, usize); 12] = [
    ("barrier", 0),
    ("allreduce", 32),
    ("allreduce", 8192),
    ("allreduce", 1 << 20),
    ("allreduce", 16 << 20),
    ("broadcast", 8),
    ("broadcast", 20_000_000),
    ("allgatherv", 1024),
    ("allgatherv", 65_536),
    ("allgatherv", 3_200_000),
    ("allgatherv", 64_000_000),
    ("allgatherv", 206_000_000),
];

const MOST_CALLS: usize = 20_000;
const FEWEST_CALLS: usize = 7;

type Failure = Box<dyn std::error::Error>;

#[derive(Clone)]
struct Options {
    ranks: usize,
    seconds: f64,
    label: String,
    only: Option<String>,
    bytes: Option<usize>,
    max: usize,
}

impl Options {
    fn parse() -> Result<Self, Failure> {
        let mut options = Self {
            ranks: 2,
            seconds: 0.4,
            label: "cobre".to_owned(),
            only: None,
            bytes: None,
            max: usize::MAX,
        };
        let mut arguments = std::env::args().skip(1);
        while let Some(option) = arguments.next() {
            let value = arguments.next().ok_or(format!("{option} needs a value"))?;
            match option.as_str() {
                "--ranks" => options.ranks = value.parse()?,
                "--seconds" => options.seconds = value.parse()?,
                "--label" => options.label = value,
                "--only" => options.only = Some(value),
                "--bytes" => options.bytes = Some(value.parse()?),
                "--max" => options.max = value.parse()?,
                _ => return Err(format!("{option}: not an option of this program").into()),
            }
        }
        Ok(options)
    }

    /// The rows to measure; with a size of its own, the one row of that operation.
    fn rows(&self) -> Vec<(&'static str, usize)> {
        let meant = |op: &str| self.only.as_ref().is_none_or(|only| only == op);
        let mut rows: Vec<_> = ROWS
            .into_iter()
            .filter(|&(op, bytes)| meant(op) && bytes <= self.max)
            .collect();
        if let Some(bytes) = self.bytes {
            rows.truncate(1);
            for row in &mut rows {
                row.1 = bytes;
            }
        }
        rows
    }
}

fn main() -> Result<ExitCode, Failure> {
    let options = Options::parse()?;
    if std::env::var_os("COBRE_SHM_RANK").is_some() {
        let comm = ShmBackend::attach(ShmConfig::from_env()?)?;
        for (op, bytes) in options.rows() {
            measure(&comm, &options, op, bytes)?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let name = format!("cobre-measure-{}", std::process::id());
    let binary = std::env::current_exe()?;
    let mut ranks = Vec::new();
    for rank in 0..options.ranks {
        let mut command = Command::new(&binary);
        command.args(std::env::args().skip(1));
        command.env("COBRE_SHM_NAME", &name);
        command.env("COBRE_SHM_RANK", rank.to_string());
        command.env("COBRE_SHM_SIZE", options.ranks.to_string());
        ranks.push(command.spawn()?);
    }
    let mut good = true;
    for mut rank in ranks {
        good &= rank.wait()?.success();
    }
    Ok(if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// The buffers of one row.
struct Row<'a> {
    comm: &'a ShmBackend,
    op: &'static str,
    send: Vec<f64>,
    recv: Vec<f64>,
    bytes: Vec<u8>,
    block: Vec<u8>,
    counts: Vec<usize>,
    displs: Vec<usize>,
}

impl<'a> Row<'a> {
    fn new(comm: &'a ShmBackend, op: &'static str, bytes: usize) -> Self {
        let (rank, size) = (comm.rank(), comm.size());
        let per = bytes / size;
        let floats = if op == "allreduce" { bytes / 8 } else { 0 };
        let number = |i: usize| (rank + 1) as f64 + (i % 8) as f64;
        Self {
            comm,
            op,
            send: (0..floats).map(number).collect(),
            recv: vec![0.0; floats],
            bytes: vec![if rank == 0 { 77 } else { 1 }; if floats > 0 { 0 } else { bytes }],
            block: vec![rank as u8 + 1; if op == "allgatherv" { per } else { 0 }],
            counts: vec![per; size],
            displs: (0..size).map(|rank| rank * per).collect(),
        }
    }

    fn call(&mut self) -> Result<(), CommError> {
        match self.op {
            "barrier" => self.comm.barrier(),
            "allreduce" => self
                .comm
                .allreduce(&self.send, &mut self.recv, ReduceOp::Sum),
            "broadcast" => self.comm.broadcast(&mut self.bytes, 0),
            _ => {
                let Self {
                    block,
                    bytes,
                    counts,
                    displs,
                    ..
                } = self;
                self.comm.allgatherv(block, bytes, counts, displs)
            }
        }
    }

    fn check(&self) -> bool {
        let size = self.comm.size();
        let sum = |i: usize| (size * (size + 1) / 2) as f64 + (size * (i % 8)) as f64;
        match self.op {
            "allreduce" => self.recv.iter().enumerate().all(|(i, &x)| x == sum(i)),
            "broadcast" => self.bytes.iter().all(|&byte| byte == 77),
            "allgatherv" => self
                .bytes
                .chunks(self.block.len())
                .take(size)
                .enumerate()
                .all(|(rank, block)| block.iter().all(|&byte| usize::from(byte) == rank + 1)),
            _ => true,
        }
    }
}

fn measure(
    comm: &ShmBackend,
    options: &Options,
    op: &'static str,
    bytes: usize,
) -> Result<(), Failure> {
    let mut row = Row::new(comm, op, bytes);
    row.call()?;
    if !row.check() {
        return Err(format!("rank {}: {op} of {bytes} bytes is wrong", comm.rank()).into());
    }
    let apart = op == "broadcast";

    // Calibration: as many calls as fill a fifth of the time, on the clock of rank 0.
    let start = Instant::now();
    let mut calls = 0_usize;
    let mut more = true;
    while more {
        for _ in 0..if calls < 2 || bytes > 4_000_000 {
            1
        } else {
            10
        } {
            if apart {
                comm.barrier()?;
            }
            row.call()?;
            calls += 1;
        }
        let elapsed = start.elapsed().as_secs_f64();
        let enough = elapsed > options.seconds * 0.2 || calls >= 2000;
        more = comm.broadcast_value(u8::from(calls < 2 || !enough), 0)? == 1;
    }
    let each = start.elapsed().as_secs_f64() / calls as f64;
    let wanted = (options.seconds / each) as usize;
    let calls = comm.broadcast_value(wanted.clamp(FEWEST_CALLS, MOST_CALLS), 0)?;

    let mut entries = vec![0.0; calls];
    let mut returns = vec![0.0; calls];
    comm.barrier()?;
    for (entry, back) in entries.iter_mut().zip(&mut returns) {
        if apart {
            comm.barrier()?;
        }
        *entry = now();
        row.call()?;
        *back = now();
    }
    let own: Vec<f64> = returns.iter().zip(&entries).map(|(b, a)| b - a).collect();
    let mut slowest = vec![0.0; calls];
    comm.allreduce(&own, &mut slowest, ReduceOp::Max)?;
    let mut last = vec![0.0; calls];
    comm.allreduce(&returns, &mut last, ReduceOp::Max)?;
    if comm.rank() == 0 {
        let name = |row: &str| format!("{},shm,{},{row},{bytes}", options.label, comm.size());
        show(&name(op), slowest, own);
        if apart {
            let span: Vec<f64> = last.iter().zip(&entries).map(|(b, a)| b - a).collect();
            show(&name("broadcast_span"), span.clone(), span);
        }
    }
    Ok(())
}

/// Prints a row: the slowest rank's time of every call, and rank 0's own.
fn show(name: &str, mut slowest: Vec<f64>, mut own: Vec<f64>) {
    let calls = own.len();
    let mean = own.iter().sum::<f64>() / calls as f64;
    slowest.sort_by(f64::total_cmp);
    own.sort_by(f64::total_cmp);
    let (median, p99) = (slowest[calls / 2], slowest[calls * 99 / 100]);
    let first = own[calls / 2];
    println!("{name},{median:.3},{p99:.3},{mean:.3},{first:.3},{calls}");
}

/// Microseconds on the clock that all processes of the machine share.
fn now() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 * 1e-3
}
