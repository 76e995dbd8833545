//! Builds the measuring programs: ours with cargo, the peers' with their own compilers.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::contender::{Peer, Programs};
use crate::process::{self, cargo, command, workspace_root};
use crate::report::Outcome;
use crate::tools::{GLOO, MPICH, OPEN_MPI, Tool};

impl Peer {
    const fn tool(self) -> &'static Tool {
        match self {
            Self::Mpich => &MPICH,
            Self::OpenMpi => &OPEN_MPI,
            Self::Gloo => &GLOO,
        }
    }

    /// Says what to install if the library is not there; nothing is installed for a benchmark.
    pub(super) fn missing(self) -> Option<String> {
        self.tool().missing()
    }

    fn compiler(self, sources: &Path, program: &Path) -> Command {
        let (compiler, source) = match self {
            Self::Mpich => ("mpicc.mpich", "mpi.c"),
            Self::OpenMpi => ("mpicc.openmpi", "mpi.c"),
            Self::Gloo => ("c++", "gloo.cc"),
        };
        let mut compile = command(compiler, &["-O2", "-Wall", "-Wextra", "-o"]);
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
        made(&mut self.compiler(&sources, &program))
    }

    /// Gives the version that its launcher tells; none of Gloo, which has no launcher.
    pub(super) fn version(self) -> Option<String> {
        let launcher = match self {
            Self::Mpich => "mpiexec.mpich",
            Self::OpenMpi => "mpiexec.openmpi",
            Self::Gloo => return None,
        };
        let told = command(launcher, &["--version"]).output().ok()?;
        version_in(&String::from_utf8_lossy(&told.stdout))
    }
}

/// Finds the first word that starts like a version.
fn version_in(text: &str) -> Option<String> {
    let mut words = text.split_whitespace();
    let version =
        words.find(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    version.map(str::to_owned)
}

/// Builds our own programs, optimised unless only the command itself is tested, and finds a place for the others.
pub(super) fn ours(optimised: bool) -> Result<Programs, String> {
    let mut build = cargo(&["build", "--quiet"]);
    if optimised {
        build.arg("--release");
    }
    build.args(["--package", "comm-run", "--bin", "comm-run"]);
    build.args(["--package", "comm-factory", "--example", "timings"]);
    build.args(["--features", "comm-factory/shm,comm-factory/tcp"]);
    made(&mut build)?;
    let target = target()?;
    let peers = target.join("bench");
    fs::create_dir_all(&peers).map_err(|why| format!("{}: {why}", peers.display()))?;
    let profile = if optimised { "release" } else { "debug" };
    let ours = target.join(profile);
    Ok(Programs { ours, peers })
}

/// Finds the folder in which cargo builds, from where this program lies.
fn target() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|why| format!("who am I: {why}"))?;
    let target = own.ancestors().nth(2).ok_or("no target directory")?;
    Ok(target.to_path_buf())
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
            let command = peer.compiler(&sources, Path::new("program"));
            let mut words = command.get_args().map(Path::new);
            let source = words.find(|word| word.starts_with(&sources));
            assert!(source.is_some_and(Path::is_file), "{}", peer.name());
        }
    }
}
