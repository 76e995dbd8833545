//! Runs the published solver cobre, unmodified, on the backends of this repository, and compares every file with what the original writes on
//! MPI. Then runs the tests of the published `cobre-comm` on ours.
//!
//! Everything is below `target/cobre`: `original` and `ours` hold the published packages, built once with the published `cobre-comm` and once
//! with ours in its place; `cases` and `out` what goes in and comes out. Not a step of `cargo xtask test`: it compiles a solver in C++.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    /// Run the solver that was built the last time
    #[arg(long)]
    no_build: bool,
}

/// The version of all packages of the solver.
const VERSION: &str = "0.18.0";

/// The library that the original runs on. Built with the other, programs of both would need the same launcher.
const MPI: Mpi = Mpi::Mpich;

/// Which `cobre-comm` a program has.
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

    /// Returns the solver, once it was built.
    fn program(self) -> PathBuf {
        self.folder().join("cobre")
    }

    /// Prepares a cargo that builds `package` with this crate.
    fn cargo(self, command: &str, package: &str) -> Command {
        let mut cargo = cargo(&[command]);
        cargo.current_dir(self.folder().join(package));
        cargo.env("CARGO_TARGET_DIR", folder().join("build"));
        cargo.env("MPICC", format!("mpicc.{}", MPI.name()));
        if self == Self::Ours {
            let ours = workspace_root().join("cobre-comm");
            let patch = format!("patch.crates-io.cobre-comm.path='{}'", ours.display());
            cargo.args(["--config", &patch]);
        }
        cargo
    }
}

fn folder() -> PathBuf {
    workspace_root().join("target").join("cobre")
}

/// Builds, runs and compares; returns whether everything is identical but times.
pub(crate) fn run_all(arguments: &Cobre) -> bool {
    let done = || -> Result<bool, String> {
        CMAKE.obtain()?;
        MPI.tool().obtain()?;
        fetch::packages()?;
        if !arguments.no_build {
            build(Crate::Original)?;
            build(Crate::Ours)?;
        }
        let same = runs::compare()?;
        published::tests()?;
        Ok(same)
    };
    done().unwrap_or_else(|reason| {
        eprintln!("error: {reason}");
        false
    })
}

/// Builds the solver, and keeps it from the next one, which has the same name.
fn build(which: Crate) -> Result<(), String> {
    let mut cargo = which.cargo("build", "cobre-cli");
    cargo.args(["--release", "--features", "mpi"]);
    succeed(&mut cargo)?;
    let built = folder().join("build/release/cobre");
    fs::copy(&built, which.program()).map_err(io(&built))?;
    Ok(())
}

/// Builds the program that compares results and makes a case.
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
