//! Runs the solver on every backend and compares its files.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use comfy_table::Table;
use comfy_table::presets::ASCII_MARKDOWN;

use super::{Crate, MPI, files, folder, io, launcher, succeed};
use crate::mpi::Mpi;
use crate::process::{command, shown};

/// How the ranks of a run are connected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Transport {
    Local,
    Shm,
    Tcp,
    Mpi(Mpi),
}

impl Transport {
    const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::Mpi(mpi) => mpi.name(),
        }
    }
}

/// The runs of each case. A run comes after the run that it is compared with.
const RUNS: [(Crate, Transport, usize); 14] = [
    (Crate::Original, Transport::Local, 1),
    (Crate::Original, Transport::Mpi(MPI), 2),
    (Crate::Original, Transport::Mpi(MPI), 4),
    (Crate::Original, Transport::Mpi(Mpi::OpenMpi), 2),
    (Crate::Original, Transport::Mpi(Mpi::OpenMpi), 4),
    (Crate::Ours, Transport::Local, 1),
    (Crate::Ours, Transport::Shm, 2),
    (Crate::Ours, Transport::Shm, 4),
    (Crate::Ours, Transport::Tcp, 2),
    (Crate::Ours, Transport::Tcp, 4),
    (Crate::Ours, Transport::Mpi(MPI), 2),
    (Crate::Ours, Transport::Mpi(MPI), 4),
    (Crate::Ours, Transport::Mpi(Mpi::OpenMpi), 2),
    (Crate::Ours, Transport::Mpi(Mpi::OpenMpi), 4),
];

/// Returns the run of the original with which runs of the same number of ranks are compared.
const fn reference(ranks: usize) -> (Crate, Transport, usize) {
    match ranks {
        1 => (Crate::Original, Transport::Local, 1),
        ranks => (Crate::Original, Transport::Mpi(MPI), ranks),
    }
}

/// The programs of a comparison.
struct Programs {
    launcher: PathBuf,
    files: PathBuf,
}

/// Runs both programs on both cases, prints a table, and returns whether everything except times is identical.
pub(super) fn compare(libraries: &[Mpi]) -> Result<bool, String> {
    let programs = Programs {
        launcher: launcher()?,
        files: files()?,
    };
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN).set_header([
        "case",
        "cobre-comm",
        "backend",
        "ranks",
        "seconds",
        "all ranks in collectives, s",
        "files",
        "identical",
        "but times",
    ]);
    let mut differences = Vec::new();
    for (case, path) in cases(&programs)? {
        for (which, transport, ranks) in RUNS {
            if matches!(transport, Transport::Mpi(mpi) if !libraries.contains(&mpi)) {
                continue;
            }
            let out = out(case, (which, transport, ranks));
            let seconds = programs.run(&path, &out, (which, transport, ranks))?;
            let found = programs.difference(&self::out(case, reference(ranks)), &out)?;
            let name = format!("{case}, {} {} x {ranks}", which.name(), transport.name());
            differences.extend(
                found
                    .differences
                    .iter()
                    .map(|line| format!("{name}: {line}")),
            );
            let [files, identical, times] = found.counts.map(|count| count.to_string());
            let row = [
                case.to_owned(),
                which.name().to_owned(),
                transport.name().to_owned(),
                ranks.to_string(),
                format!("{seconds:.2}"),
                format!("{:.2}", found.collectives),
                files,
                identical,
                times,
            ];
            println!("{}", row.join("  "));
            table.add_row(row);
        }
    }
    println!("\n{table}\n");
    for difference in &differences {
        println!("differs: {difference}");
    }
    Ok(differences.is_empty())
}

fn out(case: &str, (which, transport, ranks): (Crate, Transport, usize)) -> PathBuf {
    let name = format!("{}-{}-{ranks}", which.name(), transport.name());
    folder().join("out").join(case).join(name)
}

/// Creates the cases: the template of the solver, and a larger one of ours.
fn cases(programs: &Programs) -> Result<[(&'static str, PathBuf); 2], String> {
    let folder = folder().join("cases");
    let cases = ["template", "generated"].map(|name| (name, folder.join(name)));
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(io(&folder))?;
    }
    let [(_, template), (_, generated)] = &cases;
    let mut init = Command::new(Crate::Original.program(MPI));
    init.args(["init", "--template", "1dtoy"]).arg(template);
    succeed(init.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let mut generate = Command::new(&programs.files);
    succeed(generate.arg("generate").args([template, generated]))?;
    Ok(cases)
}

/// The result of a comparison.
struct Found {
    /// The numbers of all files, of identical ones, and of those that differ only in times.
    counts: [u64; 3],
    /// Seconds that all ranks together spent in collectives.
    collectives: f64,
    differences: Vec<String>,
}

impl Programs {
    /// Runs the solver; returns the seconds it took.
    fn run(
        &self,
        case: &Path,
        out: &Path,
        (which, transport, ranks): (Crate, Transport, usize),
    ) -> Result<f64, String> {
        if out.exists() {
            fs::remove_dir_all(out).map_err(io(out))?;
        }
        let mpi = match transport {
            Transport::Mpi(mpi) => mpi,
            Transport::Local | Transport::Shm | Transport::Tcp => MPI,
        };
        let program = &which.program(mpi);
        let ranks = ranks.to_string();
        let mut run = match transport {
            Transport::Local => Command::new(program),
            Transport::Mpi(mpi) => {
                let mut launcher = mpi.launcher(&ranks);
                launcher.arg(program);
                launcher
            }
            Transport::Shm | Transport::Tcp => {
                let mut launcher = command(&self.launcher.display().to_string(), &[]);
                launcher.args([
                    "-n",
                    &ranks,
                    "--backend",
                    transport.name(),
                    "--timeout",
                    "600",
                ]);
                launcher.arg("--").arg(program);
                launcher
            }
        };
        run.arg("run").arg(case).arg("--output").arg(out);
        run.args(["--threads", "1", "--quiet"]).stdin(Stdio::null());
        let start = Instant::now();
        let output = run.output().map_err(io(program))?;
        let seconds = start.elapsed().as_secs_f64();
        if output.status.success() {
            return Ok(seconds);
        }
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(format!("{}: {}\n{errors}", shown(&run), output.status))
    }

    fn difference(&self, a: &Path, b: &Path) -> Result<Found, String> {
        let mut compare = Command::new(&self.files);
        let output = compare.arg("compare").args([a, b]).output();
        let output = output.map_err(io(&self.files))?;
        let text = String::from_utf8_lossy(&output.stdout);
        found(&text).ok_or_else(|| {
            let errors = String::from_utf8_lossy(&output.stderr);
            format!(
                "the results in {} cannot be compared: {errors}",
                b.display()
            )
        })
    }
}

/// Parses the output of the comparison: counts and milliseconds, then a line for each difference.
fn found(text: &str) -> Option<Found> {
    let mut lines = text.lines();
    let numbers: Vec<u32> = lines
        .next()?
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let [files, identical, times, milliseconds] = numbers[..] else {
        return None;
    };
    Some(Found {
        counts: [files, identical, times].map(u64::from),
        collectives: f64::from(milliseconds) / 1000.0,
        differences: lines.map(str::to_owned).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_comparison_says_is_read() {
        let read = found("528 519 8 1500\npolicy/cuts/000.bin: its bytes differ\n").unwrap();
        assert_eq!(read.counts, [528, 519, 8]);
        assert!((read.collectives - 1.5).abs() < 1e-9);
        assert_eq!(read.differences.len(), 1);
        assert!(found("").is_none() && found("528 519").is_none());
    }

    #[test]
    fn what_a_run_is_compared_with_comes_before_it() {
        for (i, run) in RUNS.iter().enumerate() {
            assert!(RUNS[..=i].contains(&reference(run.2)), "{run:?}");
        }
    }
}
