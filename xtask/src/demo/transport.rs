//! The transports over which a case can be solved: each backend, and each MPI library.

use std::fmt::{self, Display, Formatter};
use std::path::Path;
use std::process::Command;

use super::Backend;
use super::build::Build;
use crate::mpi::Mpi;
use crate::process::command;

/// A backend and, for MPI, the library.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    Shm,
    Local,
    Tcp,
    Mpi(Mpi),
}

/// How long one run may take.
const SECONDS: &str = "600";

impl Transport {
    /// Lists all transports, the most instructive one first.
    pub(super) fn all() -> Vec<Self> {
        let mut all = vec![Self::Shm, Self::Local, Self::Tcp];
        all.extend(Mpi::ALL.map(Self::Mpi));
        all
    }

    pub(super) fn backend(self) -> Backend {
        match self {
            Self::Shm => Backend::Shm,
            Self::Local => Backend::Local,
            Self::Tcp => Backend::Tcp,
            Self::Mpi(_) => Backend::Mpi,
        }
    }

    /// Returns a name for files.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Local => "local",
            Self::Tcp => "tcp",
            Self::Mpi(mpi) => mpi.name(),
        }
    }

    /// Returns the number of ranks: the requested number if the transport allows several, else 1.
    pub(super) fn ranks(self, wanted: u16) -> u16 {
        if self == Self::Local { 1 } else { wanted }
    }

    /// Returns why this transport does not run, if it does not. A demonstration installs nothing, and uses only one MPI library unless MPI is
    /// requested.
    pub(super) fn absent(self, library: Option<Mpi>, asked: bool) -> Option<String> {
        let Self::Mpi(mpi) = self else {
            return None;
        };
        mpi.tool().missing().or_else(|| {
            let another = !asked && library != Some(mpi);
            another.then(|| {
                "one MPI library is enough for the demo; --backend mpi runs all".to_owned()
            })
        })
    }

    /// Returns the build of this transport; `main` is that of the other transports.
    pub(super) fn build(self, main: Build) -> Build {
        match self {
            Self::Mpi(mpi) => Build(Some(mpi)),
            Self::Shm | Self::Local | Self::Tcp => main,
        }
    }

    /// Prepares the solver on this many ranks.
    pub(super) fn command(self, programs: &Path, ranks: u16) -> Command {
        let solver = programs.join("sddp");
        let ranks = ranks.to_string();
        let mut start = match self {
            Self::Local => {
                let mut solver = command(&solver.to_string_lossy(), &[]);
                solver.env("COBRE_COMM_BACKEND", "local");
                return solver;
            }
            Self::Shm | Self::Tcp => {
                let run = programs.join("comm-run");
                let flags = ["-n", &ranks, "--backend", self.name()];
                let mut run = command(&run.to_string_lossy(), &flags);
                run.args(["--timeout", SECONDS, "--"]);
                run
            }
            Self::Mpi(mpi) => {
                let mut run = mpi.launcher(&ranks);
                run.env("MPIEXEC_TIMEOUT", SECONDS);
                run
            }
        };
        start.arg(solver);
        start
    }
}

impl Display for Transport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Mpi(mpi) => write!(f, "mpi ({})", mpi.name()),
            other => f.write_str(other.name()),
        }
    }
}
