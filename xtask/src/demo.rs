//! Demonstrates the library: a solver on four ranks, then the same on every installed backend.

use std::fs;
use std::path::PathBuf;

use crate::mpi::Mpi;
use crate::process::workspace_root;
use crate::report::bold;

mod build;
mod progress;
mod summary;
mod transport;

use build::Build;
use progress::{Ran, watch};
use summary::{Row, agreement};
use transport::Transport;

/// Run a distributed solver on every installed backend and compare the results.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct Demo {
    /// Run on one backend instead of all that are installed
    #[arg(long, value_enum)]
    backend: Option<Backend>,
    /// Number of ranks on backends with several ranks
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=256))]
    ranks: u16,
    /// Number of months to plan
    #[arg(long, default_value_t = 24)]
    stages: u64,
    /// Number of hydro plants
    #[arg(long, default_value_t = 4)]
    plants: u64,
    /// Maximum number of iterations
    #[arg(long, default_value_t = 20)]
    iterations: u64,
    /// Seed of the case: another number generates another case
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads per rank
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Continue from the checkpoints of the last demo
    #[arg(long)]
    resume: bool,
}

/// A backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    Shm,
    Local,
    Tcp,
    Mpi,
}

/// The folder of the plot and the checkpoints.
fn folder() -> PathBuf {
    workspace_root().join("target").join("demo")
}

/// Runs the demonstration; returns whether everything succeeded and all results agree.
pub(crate) fn run(demo: &Demo) -> bool {
    match show(demo) {
        Ok(agreed) => agreed,
        Err(reason) => {
            eprintln!("demo: {reason}");
            false
        }
    }
}

fn show(demo: &Demo) -> Result<bool, String> {
    fs::create_dir_all(folder())
        .map_err(|why| format!("{} cannot be created: {why}", folder().display()))?;
    // One build with an MPI library has all backends; each further library needs another build. The last one goes first, because
    // Open MPI yields if there are more ranks than cores.
    let mut libraries = Mpi::ALL.into_iter().rev();
    let library = libraries.find(|mpi| mpi.tool().missing().is_none());
    let main = match demo.backend {
        None | Some(Backend::Mpi) => Build(library),
        Some(_) => Build(None),
    };
    let mut ready = Vec::new();
    let mut rows = Vec::new();
    for transport in Transport::all() {
        if demo
            .backend
            .is_some_and(|wanted| wanted != transport.backend())
        {
            continue;
        }
        let absent = transport.absent(library, demo.backend.is_some());
        let result = if let Some(reason) = absent {
            Err(reason)
        } else {
            let build = transport.build(main);
            if !ready.contains(&build) {
                println!("{}", bold(&format!("==> build {build}")));
                build.compile()?;
                ready.push(build);
            }
            let first = rows.iter().all(|row: &Row| row.result.is_err());
            Ok(solve(demo, transport, build, first)?)
        };
        let ranks = transport.ranks(demo.ranks);
        rows.push(Row {
            transport,
            ranks,
            result,
        });
    }
    println!("\n{}", bold("==> the same case everywhere"));
    let (text, agreed) = agreement(&rows);
    println!("{text}");
    Ok(agreed)
}

/// Solves the case over one transport; `whole` shows the whole output of the solver, not only its progress.
fn solve(demo: &Demo, transport: Transport, build: Build, whole: bool) -> Result<Ran, String> {
    let ranks = transport.ranks(demo.ranks);
    let what = format!(
        "{transport}, {ranks} rank{}",
        if ranks == 1 { "" } else { "s" }
    );
    println!("\n{}", bold(&format!("==> {what}")));
    let policy = folder().join(format!("{}.policy", transport.name()));
    let plot = folder().join("bounds.svg");
    let mut command = transport.command(&build.programs()?, ranks);
    command.args(demo.arguments());
    command.arg("--checkpoint").arg(&policy);
    if whole {
        command.arg("--plot").arg(&plot);
    }
    let mut ran = watch(command, demo.iterations, whole)?;
    if whole {
        println!("plot of the bounds: {}", plot.display());
    }
    ran.policy = fs::read(&policy).map_err(|why| format!("{}: {why}", policy.display()))?;
    Ok(ran)
}

impl Demo {
    /// Returns the arguments for the solver.
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        for (flag, value) in [
            ("--stages", self.stages),
            ("--plants", self.plants),
            ("--iterations", self.iterations),
            ("--seed", self.seed),
            ("--threads", self.threads),
        ] {
            arguments.extend([flag.to_owned(), value.to_string()]);
        }
        if self.resume {
            arguments.push("--resume".to_owned());
        }
        arguments
    }
}
