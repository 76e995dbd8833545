//! Measures the cost of the factory's features: compiled crates, linked libraries, the size of a program, and its start-up time.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::mpi::Mpi;
use crate::process::{self, cargo, shown, workspace_root};
use crate::report::Outcome;

/// Measure the build profiles.
#[derive(Debug, clap::Args)]
pub(crate) struct Profiles {
    /// Start each program this often, and report the median
    #[arg(long, value_name = "N", default_value_t = 31, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    starts: u32,
    /// Leave out the profiles that need an MPI library
    #[arg(long)]
    no_mpi: bool,
}

/// A way to build a program.
struct Profile {
    purpose: &'static str,
    features: &'static str,
}

/// The profiles of real programs, and each feature alone.
const PROFILES: [Profile; 6] = [
    profile("tests, one process", ""),
    profile("one machine", "shm"),
    profile("many machines without MPI", "tcp"),
    profile("Python wheel", "shm,tcp"),
    profile("a cluster's MPI only", "mpi"),
    profile("command line on a cluster; development", "mpi,shm,tcp"),
];

const fn profile(purpose: &'static str, features: &'static str) -> Profile {
    Profile { purpose, features }
}

/// The figures of one profile.
struct Row {
    profile: &'static Profile,
    program: PathBuf,
    crates: usize,
    libraries: Vec<String>,
    alone: Vec<Duration>,
    job: Vec<Duration>,
}

/// Builds, measures in turns and prints a table for the documents; returns whether everything succeeded.
pub(crate) fn run(arguments: &Profiles) -> bool {
    match table(arguments) {
        Ok(table) => {
            print!("{table}");
            true
        }
        Err(reason) => {
            eprintln!("error: {reason}");
            false
        }
    }
}

fn table(arguments: &Profiles) -> Result<String, String> {
    let wanted = |profile: &&Profile| !(arguments.no_mpi && profile.has("mpi"));
    let folder = workspace_root().join("target/profiles");
    let comm_run = comm_run(&folder)?;
    let mut rows = Vec::new();
    for profile in PROFILES.iter().filter(wanted) {
        if profile.has("mpi") {
            Mpi::Mpich.tool().obtain()?;
        }
        rows.push(Row::of(profile, &folder)?);
    }
    // In turns, so that other load of the machine affects all of them equally.
    for _ in 0..arguments.starts {
        for row in &mut rows {
            row.alone.push(timed(&mut Command::new(&row.program))?);
            if let Some(mut job) = row.profile.job(&comm_run, &row.program) {
                row.job.push(timed(&mut job)?);
            }
        }
    }
    let mut table = "| for | features | crates | system libraries | bytes, stripped | alone, ms | two ranks, ms |\n".to_owned();
    table += "|---|---|---|---|---|---|---|\n";
    for row in &mut rows {
        let _ = writeln!(table, "{}", row.line()?);
    }
    Ok(table)
}

impl Profile {
    fn has(&self, feature: &str) -> bool {
        self.features.split(',').any(|one| one == feature)
    }

    /// Prepares a job of two ranks, on the backend that the program is built for.
    fn job(&self, comm_run: &Path, program: &Path) -> Option<Command> {
        let mut job = if self.has("mpi") {
            Mpi::Mpich.launcher("2")
        } else {
            let backend = ["shm", "tcp"].into_iter().find(|name| self.has(name))?;
            let mut job = Command::new(comm_run);
            job.args(["-n", "2", "--backend", backend, "--"]);
            job
        };
        job.arg(program);
        Some(job)
    }

    fn backend(&self) -> &'static str {
        let mut all = ["mpi", "shm", "tcp"].into_iter();
        all.find(|name| self.has(name)).unwrap_or("")
    }
}

impl Row {
    fn of(profile: &'static Profile, folder: &Path) -> Result<Self, String> {
        let target = folder.display().to_string();
        let build = [
            &["build", "--quiet", "--release", "--package", "comm-factory"][..],
            &["--example", "hello", "--features", profile.features],
            &[
                "--config",
                "profile.release.strip=true",
                "--target-dir",
                &target,
            ],
        ];
        let mut build = cargo(&build.concat());
        build.env("MPICC", "mpicc.mpich");
        done(&mut build)?;
        let hello = folder.join("release/examples/hello");
        let name = format!("hello-{}", profile.features.replace(',', "-"));
        let program = folder.join(name.trim_end_matches('-'));
        fs::copy(&hello, &program).map_err(|error| format!("{}: {error}", hello.display()))?;
        let tree = [
            "tree",
            "--package",
            "comm-factory",
            "--edges",
            "normal",
            "--prefix",
            "none",
            "--features",
        ];
        let tree = text(cargo(&tree).arg(profile.features))?;
        let libraries = text(Command::new("ldd").arg(&program))?;
        Ok(Self {
            profile,
            crates: crates(&tree),
            libraries: names(&libraries),
            program,
            alone: Vec::new(),
            job: Vec::new(),
        })
    }

    fn line(&mut self) -> Result<String, String> {
        let size = fs::metadata(&self.program)
            .map_err(|error| error.to_string())?
            .len();
        let features = match self.profile.features {
            "" => "none".to_owned(),
            some => format!("`{some}`"),
        };
        let mpi = self.libraries.iter().find(|name| name.contains("mpi"));
        let mpi = mpi.map_or_else(String::new, |name| format!(", `{name}` among them"));
        let job = match median(&mut self.job) {
            None => "-".to_owned(),
            Some(time) => format!("{} on {}", milliseconds(time), self.profile.backend()),
        };
        Ok(format!(
            "| {} | {features} | {} | {}{mpi} | {} | {} | {job} |",
            self.profile.purpose,
            self.crates,
            self.libraries.len(),
            grouped(size),
            median(&mut self.alone).map_or_else(String::new, milliseconds),
        ))
    }
}

/// Builds the launcher and returns its path.
fn comm_run(folder: &Path) -> Result<PathBuf, String> {
    let target = folder.display().to_string();
    let mut build = cargo(&[
        "build",
        "--quiet",
        "--release",
        "--package",
        "comm-run",
        "--bin",
        "comm-run",
    ]);
    done(build.args(["--target-dir", &target]))?;
    Ok(folder.join("release/comm-run"))
}

fn done(command: &mut Command) -> Result<(), String> {
    match process::run(command) {
        Outcome::Passed => Ok(()),
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            Err(format!("{}: {reason}", shown(command)))
        }
    }
}

/// Returns the output of a command.
fn text(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", shown(command)))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", shown(command), why.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs to the end and returns how long that took.
fn timed(command: &mut Command) -> Result<Duration, String> {
    let start = Instant::now();
    text(command)?;
    Ok(start.elapsed())
}

/// Counts the crates in the output of `cargo tree`, including those of the workspace.
fn crates(tree: &str) -> usize {
    let lines = tree.lines().filter(|line| !line.is_empty());
    let mut crates: Vec<&str> = lines.map(|line| line.trim_end_matches(" (*)")).collect();
    crates.sort_unstable();
    crates.dedup();
    crates.len()
}

/// Returns the names of the libraries that `ldd` found, without the loader and the kernel's own page.
fn names(ldd: &str) -> Vec<String> {
    let names = ldd.lines().filter_map(|line| line.split_once(" => "));
    names.map(|(name, _)| name.trim().to_owned()).collect()
}

fn median(times: &mut [Duration]) -> Option<Duration> {
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1}", time.as_secs_f64() * 1e3)
}

/// Formats a number in groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let first = digits.len() % 3;
    let groups = digits.as_bytes()[first..].chunks(3);
    let groups = std::iter::once(&digits.as_bytes()[..first]).chain(groups);
    let groups = groups.filter(|group| !group.is_empty());
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_counted_once() {
        let tree = "comm-factory v0.1.0 (/x)\ncomm-api v0.1.0 (/y)\ncomm-api v0.1.0 (/y) (*)\n\n";
        assert_eq!(crates(tree), 2);
    }

    #[test]
    fn libraries_are_what_is_loaded() {
        let ldd =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so (0x3)\n";
        assert_eq!(names(ldd), ["libc.so.6"]);
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(grouped),
            ["0", "999", "1 000", "1 234 567"]
        );
    }

    #[test]
    fn a_profile_takes_the_backend_that_it_is_built_for() {
        let backends = PROFILES.each_ref().map(Profile::backend);
        assert_eq!(backends, ["", "shm", "tcp", "shm", "mpi", "mpi"]);
    }

    #[test]
    fn the_middle_counts() {
        let mut times = [3, 1, 2].map(Duration::from_secs);
        assert_eq!(median(&mut times), Some(Duration::from_secs(2)));
        assert_eq!(median(&mut []), None);
    }
}
