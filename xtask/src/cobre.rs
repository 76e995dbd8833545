//! Runs the published solver cobre, unmodified, on the backends of this repository, and compares every file with that of the original on
//! MPI. Then runs the published tests of `cobre-comm` and of the solver on ours.
//!
//! Everything is below `target/cobre`: `original` and `ours` hold the published packages, built with the published `cobre-comm` and with
//! ours in its place; `cases` and `out` hold the inputs and the results. Not a step of `cargo xtask test`, because it compiles a C++ solver.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::mpi::Mpi;
use crate::process::{cargo, run, workspace_root};
use crate::report::Outcome;
use crate::tools::CMAKE;

mod fetch;
mod published;
mod runs;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Cobre {
    /// Run only these steps, with the files that the others left the last time
    #[arg(value_name = "STEP")]
    steps: Vec<Stage>,
}

/// The steps, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// Compile everything that the other steps run
    Build,
    /// Run the solver and compare its files
    Runs,
    /// Run the published tests
    Tests,
}

/// The version of all packages of the solver.
const VERSION: &str = "0.18.0";

/// The library of the reference runs, with which all others are compared.
const MPI: Mpi = Mpi::Mpich;

/// The `cobre-comm` of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Crate {
    Original,
    Ours,
}

impl Crate {
    const fn name(self) -> &'static str {
        match self {
            Self::Original => "original",
            Self::Ours => "ours",
        }
    }

    fn folder(self) -> PathBuf {
        folder().join(self.name())
    }

    /// Returns the path of the solver that is built with this library.
    fn program(self, mpi: Mpi) -> PathBuf {
        self.folder().join(format!("cobre-{}", mpi.name()))
    }

    /// Prepares a cargo that builds `package` with this crate. All builds share a folder, so that the C++ solver is compiled only once; crates
    /// that depend on MPI are compiled again whenever the library changes.
    fn cargo(self, command: &str, package: &str, mpi: Mpi) -> Command {
        let mut cargo = cargo(&[command]);
        cargo.current_dir(self.folder().join(package));
        cargo.env("CARGO_TARGET_DIR", folder().join("build"));
        cargo.env("MPICC", format!("mpicc.{}", mpi.name()));
        if self == Self::Ours {
            let ours = workspace_root().join("compat/cobre-comm");
            let patch = format!("patch.crates-io.cobre-comm.path='{}'", ours.display());
            cargo.args(["--config", &patch]);
        }
        cargo
    }
}

fn folder() -> PathBuf {
    workspace_root().join("target").join("cobre")
}

/// Builds, runs and compares; returns whether everything except times is identical and every test passes.
pub(crate) fn run_all(arguments: &Cobre) -> bool {
    let wanted = |step| arguments.steps.is_empty() || arguments.steps.contains(&step);
    let done = || -> Result<bool, String> {
        CMAKE.obtain()?;
        let libraries = libraries()?;
        fetch::packages()?;
        if wanted(Stage::Build) {
            for &mpi in &libraries {
                build(Crate::Original, mpi)?;
                build(Crate::Ours, mpi)?;
            }
            files()?;
            launcher()?;
            published::build()?;
        }
        let same = !wanted(Stage::Runs) || runs::compare(&libraries)?;
        if wanted(Stage::Tests) {
            published::tests()?;
        }
        Ok(same)
    };
    done().unwrap_or_else(|reason| {
        eprintln!("error: {reason}");
        false
    })
}

/// Returns the installed MPI libraries. The first one must be installed.
fn libraries() -> Result<Vec<Mpi>, String> {
    MPI.tool().obtain()?;
    let there = |mpi: &Mpi| {
        let obtained = mpi.tool().obtain();
        obtained
            .inspect_err(|reason| println!("NOT RUN: {reason}"))
            .is_ok()
    };
    Ok(Mpi::ALL.into_iter().filter(there).collect())
}

/// Builds the solver, and moves it away before the next build, which has the same name.
fn build(which: Crate, mpi: Mpi) -> Result<(), String> {
    let mut cargo = which.cargo("build", "cobre-cli", mpi);
    cargo.args(["--release", "--features", "mpi"]);
    succeed(&mut cargo)?;
    let built = folder().join("build/release/cobre");
    let program = which.program(mpi);
    fs::copy(&built, &program).map_err(io(&built))?;
    Ok(())
}

/// Builds the program that compares results and generates a case.
fn files() -> Result<PathBuf, String> {
    let mut cargo = cargo(&["build", "--release"]);
    cargo.current_dir(folder().join("cobre-files"));
    cargo.env("CARGO_TARGET_DIR", folder().join("build"));
    succeed(&mut cargo)?;
    Ok(folder().join("build/release/cobre-files"))
}

/// Builds the launcher.
fn launcher() -> Result<PathBuf, String> {
    succeed(&mut cargo(&["build", "--release", "--package", "comm-run"]))?;
    Ok(workspace_root().join("target/release/comm-run"))
}

fn succeed(command: &mut Command) -> Result<(), String> {
    match run(command) {
        Outcome::Passed => Ok(()),
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            Err(format!("{}: {reason}", crate::process::shown(command)))
        }
    }
}

fn io(path: &Path) -> impl Fn(std::io::Error) -> String {
    let path = path.display().to_string();
    move |error| format!("{path}: {error}")
}
