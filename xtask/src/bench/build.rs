//! Builds the measuring programs: ours with cargo, the peers' with their own compilers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contender::{Contender, Peer};
use super::{Backend, Bench};
use crate::mpi::Mpi;
use crate::process::{self, apart, cargo, command, workspace_root};
use crate::report::Outcome;
use crate::tools::GLOO;

/// Names a program for cargo.
type Program = [&'static str; 4];

const TIMINGS: Program = ["--package", "comm-factory", "--example", "timings"];
/// The folder of programs that are built only for a benchmark.
const PROGRAMS: &str = "bench";
pub(super) const SOLVER: Program = ["--package", "sddp", "--bin", "sddp"];

/// The places of the measuring programs.
#[derive(Debug)]
pub(super) struct Programs {
    ours: Checkout,
    /// The other build of ours that replaces the peers.
    other: Option<Checkout>,
    /// The folder of the peers' programs.
    pub(super) peers: PathBuf,
}

impl Programs {
    /// Builds our program for each backend, in every checkout, and creates the folder for those of the peers.
    pub(super) fn build(bench: &Bench) -> Result<Self, String> {
        let ours = Checkout::ours(!bench.unoptimised)?;
        let other = bench.against.as_ref().map(|root| Checkout {
            target: root.join("target"),
            root: root.clone(),
            ..ours
        });
        for checkout in [&ours].into_iter().chain(&other) {
            for backend in bench.backends() {
                checkout.build(backend, TIMINGS)?;
            }
        }
        let peers = ours.target.join("bench");
        fs::create_dir_all(&peers).map_err(|why| format!("{}: {why}", peers.display()))?;
        Ok(Self { ours, other, peers })
    }

    /// Returns the folder of a build of ours.
    pub(super) fn folder(&self, contender: Contender, backend: Backend) -> PathBuf {
        match (contender, &self.other) {
            (Contender::Other, Some(other)) => other.folder(backend),
            _ => self.ours.folder(backend),
        }
    }

    /// Returns the environment that a library was fetched into.
    pub(super) fn environment(&self, peer: Peer) -> PathBuf {
        self.peers.join("environments").join(peer.name())
    }

    /// Returns the launcher of a library.
    pub(super) fn launcher(&self, peer: Peer, mpi: Mpi) -> PathBuf {
        self.program(peer, mpi, "mpiexec")
    }

    fn program(&self, peer: Peer, mpi: Mpi, name: &str) -> PathBuf {
        match peer.package() {
            Some(_) => self.environment(peer).join("bin").join(name),
            None => PathBuf::from(format!("{name}.{}", mpi.name())),
        }
    }
}

/// A checkout of this workspace, and where cargo builds in it.
#[derive(Debug)]
pub(super) struct Checkout {
    root: PathBuf,
    target: PathBuf,
    optimised: bool,
}

impl Checkout {
    /// Returns the checkout that this program was built from.
    pub(super) fn ours(optimised: bool) -> Result<Self, String> {
        let own = std::env::current_exe()
            .map_err(|why| format!("the path of this program is unknown: {why}"))?;
        let target = own.ancestors().nth(2).ok_or("no target directory")?;
        Ok(Self {
            root: workspace_root(),
            target: target.to_path_buf(),
            optimised,
        })
    }

    /// Builds a program with a backend, and the launcher unless MPI provides one.
    pub(super) fn build(&self, backend: Backend, program: Program) -> Result<(), String> {
        let mut build = if let Some(mpi) = backend.mpi() {
            if let Some(advice) = mpi.tool().missing() {
                return Err(advice);
            }
            let mut build = mpi.cargo("build", "comm-factory");
            build.args(["--features", "comm-factory/mpi"]);
            build
        } else {
            let mut build = cargo(&["build", "--package", "comm-run", "--bin", "comm-run"]);
            build.args(["--features", "comm-factory/shm,comm-factory/tcp"]);
            apart(&mut build, &self.target, PROGRAMS);
            build
        };
        build.arg("--quiet").args(program).current_dir(&self.root);
        if self.optimised {
            build.arg("--release");
        }
        made(&mut build)
    }

    /// Returns the folder of the programs built with a backend.
    pub(super) fn folder(&self, backend: Backend) -> PathBuf {
        let target = match backend.mpi() {
            Some(mpi) => self.root.join(mpi.target()),
            None => process::programs(&self.target, PROGRAMS),
        };
        target.join(if self.optimised { "release" } else { "debug" })
    }
}

impl Peer {
    /// Returns what to do if the library is missing; a benchmark installs nothing.
    pub(super) fn missing(self, programs: &Programs) -> Option<String> {
        let tool = match (self.mpi(), self.package()) {
            (Some(mpi), Some(_)) => {
                let there = programs.launcher(self, mpi).exists();
                return (!there).then(|| "it was not fetched: --fetch-peers".to_owned());
            }
            (Some(mpi), None) => mpi.tool(),
            (None, _) => &GLOO,
        };
        tool.missing()
    }

    fn compiler(self, programs: &Programs, sources: &Path, program: &Path) -> Command {
        let (compiler, source) = match self.mpi() {
            Some(mpi) => (programs.program(self, mpi, "mpicc"), "mpi.c"),
            None => (PathBuf::from("c++"), "gloo.cc"),
        };
        let flags = ["-O2", "-Wall", "-Wextra", "-o"];
        let mut compile = command(&compiler.to_string_lossy(), &flags);
        compile.arg(program).arg(sources.join(source));
        if self == Self::Gloo {
            compile.args(["-std=c++17", "-lgloo", "-pthread"]);
        }
        compile
    }

    /// Compiles the program that measures this library.
    pub(super) fn build(self, programs: &Programs) -> Result<(), String> {
        let sources = workspace_root().join("xtask").join("peers");
        let program = programs.peers.join(self.name());
        made(&mut self.compiler(programs, &sources, &program))
    }

    /// Returns the version that its launcher prints; `None` for Gloo, which has no launcher.
    pub(super) fn version(self, programs: &Programs) -> Option<String> {
        let launcher = programs.launcher(self, self.mpi()?);
        let mut ask = command(&launcher.to_string_lossy(), &["--version"]);
        let told = ask.output().ok()?;
        version_in(&String::from_utf8_lossy(&told.stdout))
    }
}

/// Returns the first word that starts like a version.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let version =
        words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    version.map(str::to_owned)
}

fn made(command: &mut Command) -> Result<(), String> {
    match process::run(command) {
        Outcome::Passed => Ok(()),
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            Err(format!("{} failed: {reason}", process::shown(command)))
        }
    }
}

#[cfg(test)]
pub(super) fn programs() -> Programs {
    let checkout = |root: &str| Checkout {
        root: PathBuf::from(root),
        target: Path::new(root).join("target"),
        optimised: true,
    };
    Programs {
        ours: checkout("ours"),
        other: Some(checkout("other")),
        peers: PathBuf::from("peers"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_what_launchers_say() {
        let found = |text| version_in(text);
        let hydra = "HYDRA build details:\n    Version:         4.0.2\n    CC: gcc -O2";
        assert_eq!(found(hydra).as_deref(), Some("4.0.2"));
        let open = "mpiexec.openmpi (OpenRTE) 4.1.4\n\nReport bugs to 1.2";
        assert_eq!(found(open).as_deref(), Some("4.1.4"));
        assert_eq!(found("no version 4 here"), None);
    }

    #[test]
    fn the_sources_of_the_peers_are_there() {
        for peer in Peer::ALL {
            let sources = workspace_root().join("xtask").join("peers");
            let command = peer.compiler(&programs(), &sources, Path::new("program"));
            let mut words = command.get_args().map(Path::new);
            let source = words.find(|word| word.starts_with(&sources));
            assert!(source.is_some_and(Path::is_file), "{}", peer.name());
        }
    }

    #[test]
    fn every_checkout_has_programs_of_its_own_and_so_has_every_mpi() {
        let programs = programs();
        let folder = |contender, backend| programs.folder(contender, backend);
        let ours = folder(Contender::Ours, Backend::Shm);
        assert_eq!(ours, folder(Contender::Ours, Backend::Tcp));
        assert_eq!(ours, Path::new("ours/target/programs/bench/release"));
        let other = folder(Contender::Other, Backend::MpiMpich);
        assert_eq!(other, Path::new("other/target-mpich/release"));
    }
}
