//! Measures what more ranks bring: the solver of examples/sddp on one rank and on two, and what a shared case costs.
//!
//! A benchmark, not a test: it wants a machine that does nothing else.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::process::{self, cargo, command};
use crate::report::Outcome;

/// Says how to measure.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Scaling {
    /// Measure each number of ranks this often, in turns
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=20))]
    rounds: u8,
    /// Compare one rank with this many
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=256))]
    ranks: u16,
    /// Iterations of the solver
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..))]
    iterations: u16,
}

/// More than 20 seconds on one rank of an ordinary machine.
const CASE: &str = "--stages 48 --plants 8 --openings 20 --scenarios 32 --tolerance 0 --iterations";

/// A case of 160 MB, to see how often it is there.
const LARGE: &str = "--stages 100 --plants 100 --openings 2000 --iterations 0";

/// What two ranks should bring at least.
const WANTED: f64 = 1.6;

/// Measures and prints; returns whether the ranks bring what they should.
pub(crate) fn run(scaling: &Scaling) -> bool {
    match measure(scaling) {
        Ok(good) => good,
        Err(reason) => {
            eprintln!("scaling: {reason}");
            false
        }
    }
}

fn measure(scaling: &Scaling) -> Result<bool, String> {
    let mut build = cargo(&["build", "--release", "--quiet"]);
    build.args(["--package", "comm-run", "--bin", "comm-run"]);
    build.args(["--package", "sddp", "--bin", "sddp"]);
    build.args(["--features", "sddp/shm,sddp/tcp"]);
    if let Outcome::Failed(reason) | Outcome::NotRun(reason) = process::run(&mut build) {
        return Err(format!("the build failed: {reason}"));
    }
    let programs = release()?;
    println!("shm, sddp {CASE} {}", scaling.iterations);
    println!("round   1 rank {:>9} ranks   faster", scaling.ranks);
    let case = format!("{CASE} {}", scaling.iterations);
    let mut ratios = Vec::new();
    for round in 1..=scaling.rounds {
        let one = Figures::of(&programs, "shm", 1, &case)?;
        let many = Figures::of(&programs, "shm", scaling.ranks, &case)?;
        if one.checksum != many.checksum {
            return Err("the policies differ: the ranks did not solve the same case".to_owned());
        }
        let ratio = one.seconds / many.seconds;
        println!(
            "{round:>5} {:>6.2} s {:>13.2} s {ratio:>7.2}x",
            one.seconds, many.seconds
        );
        ratios.push(ratio);
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    let good = median >= WANTED;
    let verdict = if good { "as wanted" } else { "MISSED" };
    println!("median {median:.2}x, at least {WANTED}x: {verdict}\n");
    println!("memory of all ranks, shared pages divided, for a case of 160 MB");
    println!("ranks   shm, one copy   tcp, a copy per rank");
    for ranks in [1, 2, 4] {
        let [shm, tcp] =
            ["shm", "tcp"].map(|backend| Figures::of(&programs, backend, ranks, LARGE));
        println!(
            "{ranks:>5} {:>12.1} MB {:>19.1} MB",
            shm?.megabytes, tcp?.megabytes
        );
    }
    Ok(good)
}

/// Finds the optimised programs beside those of this one's profile.
fn release() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| format!("who am I: {why}"))?;
    let target = own.ancestors().nth(2).ok_or("no target directory")?;
    Ok(target.join("release"))
}

/// Holds what a run tells about itself.
#[derive(Debug, PartialEq)]
struct Figures {
    seconds: f64,
    megabytes: f64,
    checksum: String,
}

impl Figures {
    /// Runs the solver on some ranks of a backend.
    fn of(programs: &Path, backend: &str, ranks: u16, case: &str) -> Result<Self, String> {
        let ranks = ranks.to_string();
        let flags = ["-n", &ranks, "--backend", backend, "--timeout", "600", "--"];
        let mut run = command(&programs.join("comm-run").to_string_lossy(), &flags);
        run.arg(programs.join("sddp"));
        let output = run
            .args(case.split_whitespace())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|why| format!("comm-run cannot start: {why}"))?;
        if !output.status.success() {
            return Err(format!("the solver failed: {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Self::read(&text).ok_or_else(|| format!("the solver says something else:\n{text}"))
    }

    fn read(text: &str) -> Option<Self> {
        let find = |before: &str, after: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("[0] "));
            let mut found = lines.filter_map(|line| {
                let (_, rest) = line.split_once(before)?;
                rest.strip_suffix(after)
            });
            found.next()
        };
        Some(Self {
            seconds: find("; ", " s")?.parse().ok()?,
            megabytes: find("memory of all ranks: ", " MB")?.parse().ok()?,
            checksum: find("policy checksum ", "")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_rank_0_says() {
        let text = "[0] 2 ranks on shm, 1 thread each; shared regions of 0.1 MB\n\
                    [0] 40 iterations, as many as asked for; 3.87 s\n\
                    [1] 40 iterations, as many as asked for; 9.99 s\n\
                    [0] memory of all ranks: 12.5 MB\n[0] policy checksum 12ab";
        let figures = Figures {
            seconds: 3.87,
            megabytes: 12.5,
            checksum: "12ab".to_owned(),
        };
        assert_eq!(Figures::read(text), Some(figures));
        assert_eq!(Figures::read("[0] policy checksum 12ab"), None);
    }
}
