//! The MPI libraries: each has its own compiler, launcher and target directory.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::process::{cargo, command, copy_tree, workspace_root};
use crate::tools::{MPICH, OPEN_MPI, Tool};

/// An MPI library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mpi {
    Mpich,
    #[value(name = "openmpi")]
    OpenMpi,
}

impl Mpi {
    /// All libraries that the backend is tested with.
    pub(crate) const ALL: [Self; 2] = [Self::Mpich, Self::OpenMpi];

    /// Returns the name on the command line, which is also the suffix of its programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// Returns the first of two values for MPICH, the second for Open MPI.
    pub(crate) const fn named(self, names: [&'static str; 2]) -> &'static str {
        match self {
            Self::Mpich => names[0],
            Self::OpenMpi => names[1],
        }
    }

    /// Returns the tool that must be installed.
    pub(crate) const fn tool(self) -> &'static Tool {
        match self {
            Self::Mpich => &MPICH,
            Self::OpenMpi => &OPEN_MPI,
        }
    }

    /// Returns the target directory of builds with this library.
    pub(crate) fn target(self) -> String {
        format!("target-{}", self.name())
    }

    /// Prepares `mpiexec -n RANKS`, ready for a program; it also works as root and with more ranks than cores.
    pub(crate) fn launcher(self, ranks: &str) -> Command {
        let mut launcher = command(&format!("mpiexec.{}", self.name()), &[]);
        if self == Self::OpenMpi {
            launcher.args([
                "--allow-run-as-root",
                "--oversubscribe",
                "--bind-to",
                "none",
            ]);
        }
        launcher.args(["-n", ranks]);
        launcher.env("COBRE_COMM_BACKEND", "mpi");
        // By default both libraries wait without yielding.
        launcher.env("OMPI_MCA_mpi_yield_when_idle", "1");
        for collective in ["ALLREDUCE", "BCAST", "BARRIER", "REDUCE"] {
            let variable = format!("MPIR_CVAR_{collective}_POSIX_INTRA_ALGORITHM");
            launcher.env(variable, "mpir");
        }
        launcher
    }

    /// Prepares a cargo that builds a package with this library, separately from builds with another one.
    ///
    /// With MPICH, everything that does not depend on MPI is shared with the workspace. Cargo cannot distinguish the libraries, so the
    /// second one has its own directory, see [`Mpi::prepare`].
    pub(crate) fn cargo(self, command: &str, package: &str) -> Command {
        let (name, directory) = (self.name(), self.target());
        let mut cargo = cargo(&[command, "--package", package, "--target-dir", &directory]);
        cargo
            .env("MPICC", format!("mpicc.{name}"))
            .env("MPIEXEC", format!("mpiexec.{name}"));
        if self == Self::Mpich {
            cargo.env("CARGO_BUILD_BUILD_DIR", workspace_root().join("target"));
        }
        cargo
    }

    /// If the directory of the second library is new, fills it with the compiled crates of the workspace, so that cargo compiles only
    /// crates that depend on MPI.
    pub(crate) fn prepare(self) -> io::Result<()> {
        let root = workspace_root();
        let (from, to) = (
            root.join("target/debug"),
            root.join(self.target()).join("debug"),
        );
        if self == Self::Mpich || to.exists() {
            return Ok(());
        }
        // Cargo holds this lock while it compiles.
        let lock = File::open(from.join(".cargo-lock"))?;
        lock.lock_shared()?;
        for folder in [".fingerprint", "build", "deps"] {
            // Programs have no extension; nothing depends on those in deps.
            let wanted = |path: &Path| folder != "deps" || path.extension().is_some();
            copy_tree(&from.join(folder), &to.join(folder), &wanted)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_do_not_share_what_was_built() {
        let directories = Mpi::ALL.map(|mpi| {
            let command = mpi.cargo("test", "comm-mpi");
            let arguments: Vec<_> = command
                .get_args()
                .map(std::ffi::OsStr::to_os_string)
                .collect();
            arguments.last().cloned()
        });
        assert_ne!(directories[0], directories[1]);
    }
}
