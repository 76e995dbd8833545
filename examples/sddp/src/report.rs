//! The output of rank 0: the bounds of each iteration, then the times of each rank.

use std::fmt::Write;
use std::fs;
use std::time::Duration;

use comm_factory::api::bytemuck::{Pod, Zeroable};
use comm_factory::api::{CommError, Communicator, SharedMemoryProvider};

use super::model::Case;
use super::options::Options;
use super::plot;
use super::policy::Policy;
use super::team::Team;

/// Prints on rank 0 and does nothing on the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    prints: bool,
}

/// Times and memory of one rank.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[bytemuck(crate = "comm_factory::api::bytemuck")]
#[repr(C)]
pub(crate) struct Row {
    computing: f64,
    communicating: f64,
    waiting: f64,
    /// Memory in bytes; shared pages are divided among the ranks that share them. 0 if the system does not report it.
    memory: f64,
}

impl Printer {
    pub(crate) fn new(prints: bool) -> Self {
        Self { prints }
    }

    fn print(self, text: &str) {
        if self.prints {
            println!("{text}");
        }
    }

    /// Prints the case, and lists the iterations of the checkpoint.
    pub(crate) fn start(
        self,
        case: &Case<'_>,
        ranks: usize,
        backend: &str,
        options: &Options,
        policy: &Policy,
    ) {
        self.print(&format!(
            "{} stages, {} hydro and {} thermal plants, {} openings, {} scenarios per iteration, seed {}",
            case.stages(),
            case.plants.len(),
            case.thermals.len(),
            case.openings(),
            case.scenarios(),
            case.header.seed
        ));
        self.print(&format!(
            "{ranks} {} on {backend}, {} {} each; shared regions of {:.1} MB",
            plural("rank", ranks),
            options.threads(),
            plural("thread", options.threads()),
            mega(size_of_val(case.tree) + size_of_val(case.plants))
        ));
        if policy.iterations() > 0 {
            let done = policy.iterations();
            self.print(&format!(
                "continuing after iteration {done} of the checkpoint"
            ));
        }
        self.print("iteration       lower bound       upper bound   +- (95 %)        gap");
        for iteration in 0..policy.iterations() {
            self.iteration(policy, iteration);
        }
    }

    /// Prints the bounds of an iteration.
    pub(crate) fn iteration(self, policy: &Policy, iteration: usize) {
        let (lower, upper) = (policy.lower[iteration], policy.upper[iteration]);
        self.print(&format!(
            "{:>9} {lower:>17.6} {upper:>17.6} {:>11.2} {:>8.2} %",
            iteration + 1,
            policy.spread[iteration],
            100.0 * (upper - lower) / upper.abs().max(f64::MIN_POSITIVE)
        ));
    }

    /// Gathers the rows of all ranks.
    pub(crate) fn rows<C: Communicator + SharedMemoryProvider>(
        team: &mut Team<'_, C>,
    ) -> Result<Vec<Row>, CommError> {
        let row = Row {
            computing: team.times.computing.as_secs_f64(),
            communicating: team.times.communicating.as_secs_f64(),
            waiting: team.times.waiting.as_secs_f64(),
            memory: memory().unwrap_or(0.0),
        };
        team.gather(&[row], &vec![1; team.comm.size()])
    }

    /// Prints why the run ended, the times of each rank, and the checksum of the policy.
    pub(crate) fn end(self, policy: &Policy, options: &Options, rows: &[Row], time: Duration) {
        let why = if policy.converged(options.tolerance) {
            "the lower bound converged"
        } else {
            "as many as --iterations allows"
        };
        let mut text = format!(
            "{} iterations, {why}; {:.2} s\n",
            policy.iterations(),
            time.as_secs_f64()
        );
        text += "rank   computing  communicating    waiting     memory\n";
        for (rank, row) in rows.iter().enumerate() {
            let memory = match row.memory {
                0.0 => "?".to_owned(),
                bytes => format!("{:.1} MB", bytes / 1e6),
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{rank:>4} {:>9.3} s {:>12.3} s {:>8.3} s {memory:>10}",
                row.computing, row.communicating, row.waiting
            );
        }
        let total: f64 = rows.iter().map(|row| row.memory).sum();
        let _ = writeln!(text, "memory of all ranks: {:.1} MB", total / 1e6);
        let _ = write!(text, "policy checksum {:016x}", policy.checksum());
        self.print(&text);
    }

    /// Draws the bounds, if asked to.
    pub(crate) fn plot(self, policy: &Policy, options: &Options) -> Result<(), String> {
        match &options.plot {
            Some(path) if self.prints => plot::bounds(policy)
                .and_then(|svg| Ok(fs::write(path, svg)?))
                .map_err(|why| format!("the plot {} cannot be written: {why}", path.display())),
            _ => Ok(()),
        }
    }
}

/// Returns the memory of this process, with shared pages divided among the processes that share them, if the system reports it.
fn memory() -> Option<f64> {
    let text = fs::read_to_string("/proc/self/smaps_rollup").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

fn mega(bytes: usize) -> f64 {
    f64::from(u32::try_from(bytes >> 10).unwrap_or(u32::MAX)) * 1024.0 / 1e6
}

fn plural(word: &str, count: usize) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{word}{ending}")
}
