//! The machine: processors, memory, MPI, clock.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use comm_kit::memory::available;
use comm_kit::processors::{allowed, quota};
use comm_run::{Job, Line, Stream};

use super::{Finding, bytes};

/// Less memory than this is used up before a job has started.
const LITTLE_MEMORY: u64 = 256 << 20;
/// How long a program may take to print its version.
const TIMEOUT: Duration = Duration::from_secs(10);
/// 2024-01-01: a clock that is set shows a later time.
const EARLIEST: Duration = Duration::from_hours(24 * 19_723);

pub(super) fn processors() -> Finding {
    let usable = allowed()
        .map(|allowed| allowed.len())
        .or_else(|| std::thread::available_parallelism().ok().map(usize::from))
        .unwrap_or(1);
    judge_processors(usable, quota())
}

fn judge_processors(usable: usize, quota: Option<f64>) -> Finding {
    let what = "processors";
    let ranks = u32::try_from(usable).unwrap_or(u32::MAX);
    match quota {
        Some(quota) if quota < f64::from(ranks) => Finding::warning(
            what,
            format!("{usable} usable, but the control group allows only {quota:.1}"),
            format!(
                "use -n {:.0} or fewer, or raise the quota of the container",
                quota.floor().max(1.0)
            ),
        ),
        _ => Finding::fine(what, format!("{usable} usable, not limited by a quota")),
    }
}

pub(super) fn memory() -> Finding {
    judge_memory(available())
}

fn judge_memory(available: Option<u64>) -> Finding {
    let what = "memory";
    match available {
        Some(free) if free < LITTLE_MEMORY => Finding::warning(
            what,
            format!("{} available", bytes(free)),
            "end other programs, or give the container more memory",
        ),
        Some(free) => Finding::fine(what, format!("{} available", bytes(free))),
        None => Finding::fine(what, "the system does not report how much is available"),
    }
}

pub(super) fn mpi() -> Finding {
    mpi_named("mpiexec")
}

fn mpi_named(program: &str) -> Finding {
    let what = "MPI";
    let (sender, lines) = mpsc::channel();
    let job = Job::new(program, 1).args(["--version"]).timeout(TIMEOUT);
    let job = job.sink(move |line: Line<'_>| {
        // stderr may hold unrelated warnings.
        if line.stream == Stream::Stdout {
            let _ = sender.send(String::from_utf8_lossy(line.bytes).trim().to_owned());
        }
        Ok(())
    });
    let outcome = match job.run() {
        Ok(outcome) => outcome,
        Err(error) if error.exit_code() == 127 => {
            let text = format!("no {program} in PATH; only programs with the mpi backend need it");
            return Finding::fine(what, text);
        }
        Err(error) => return Finding::warning(what, error.to_string(), "repair or remove it"),
    };
    let lines: Vec<String> = lines.iter().filter(|line| !line.is_empty()).collect();
    if !outcome.success() {
        let text = format!("{program} --version fails with {}", outcome.exit_code());
        return Finding::warning(
            what,
            text,
            "repair the installation, or put another MPI first in PATH",
        );
    }
    Finding::fine(what, format!("{program} is {}", version(&lines)))
}

/// Returns the line that names the MPI library: the first, or with MPICH's Hydra the second.
fn version(lines: &[String]) -> String {
    let unknown = "of unknown version: it prints none";
    let first = lines.first().map_or(unknown, String::as_str);
    let number = lines.iter().find_map(|line| line.strip_prefix("Version:"));
    match number {
        Some(number) if first.starts_with("HYDRA") => format!("Hydra of MPICH {}", number.trim()),
        _ => first.to_owned(),
    }
}

pub(super) fn clock() -> Finding {
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = fs::read_to_string(source).ok();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    judge_clock(source.as_deref().map(str::trim), now.unwrap_or_default())
}

fn judge_clock(source: Option<&str>, now: Duration) -> Finding {
    let what = "clock";
    if now < EARLIEST {
        let text = "it shows a time before 2024";
        return Finding::warning(
            what,
            text,
            "set it; otherwise the logs of several machines do not match",
        );
    }
    match source {
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies")) => Finding::warning(
            what,
            format!("the clock source is {slow}, so reading the time takes a system call"),
            "do not trust timings of short operations; tsc would be better",
        ),
        Some(source) => Finding::fine(what, format!("set; the clock source is {source}")),
        None => Finding::fine(what, "set"),
    }
}

#[cfg(test)]
mod tests;
