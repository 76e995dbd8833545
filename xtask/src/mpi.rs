//! Knows the MPI libraries: each has a compiler, a launcher and a target directory of its own.

use std::fs::File;
use std::io;
use std::path::Path;
use std::process::Command;

use crate::process::{cargo, command, copy_tree, workspace_root};
use crate::tools::{MPICH, OPEN_MPI, Tool};

/// Names an MPI library.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Mpi {
    Mpich,
    #[value(name = "openmpi")]
    OpenMpi,
}

impl Mpi {
    /// All that the backend is tested with.
    pub(crate) const ALL: [Self; 2] = [Self::Mpich, Self::OpenMpi];

    /// Returns the name on the command line, which ends the names of its programs.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Mpich => "mpich",
            Self::OpenMpi => "openmpi",
        }
    }

    /// Returns the first of two for MPICH, the second for Open MPI.
    pub(crate) const fn named(self, names: [&'static str; 2]) -> &'static str {
        match self {
            Self::Mpich => names[0],
            Self::OpenMpi => names[1],
        }
    }

    /// Returns what must be installed.
    pub(crate) const fn tool(self) -> &'static Tool {
        match self {
            Self::Mpich => &MPICH,
            Self::OpenMpi => &OPEN_MPI,
        }
    }

    /// Returns the directory of what is built with this library.
    pub(crate) fn target(self) -> String {
        format!("target-{}", self.name())
    }

    /// Prepares `mpiexec -n RANKS`, ready for a program, as root and with more ranks than cores, too.
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
        // Both libraries wait without yielding unless told to.
        launcher.env("OMPI_MCA_mpi_yield_when_idle", "1");
        for collective in ["ALLREDUCE", "BCAST", "BARRIER", "REDUCE"] {
            let variable = format!("MPIR_CVAR_{collective}_POSIX_INTRA_ALGORITHM");
            launcher.env(variable, "mpir");
        }
        launcher
    }

    /// Prepares a cargo that builds a package with this library: what was built with another is kept apart.
    ///
    /// With MPICH, everything that does not stand on MPI is shared with the workspace. Cargo cannot tell libraries apart, so the
    /// second one has a directory of its own, see [`Mpi::prepare`].
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

    /// Fills the directory of the second library, if it is new, with what the workspace has compiled, so that cargo compiles only what
    /// stands on MPI.
    pub(crate) fn prepare(self) -> io::Result<()> {
        let root = workspace_root();
        let (from, to) = (
            root.join("target/debug"),
            root.join(self.target()).join("debug"),
        );
        if self == Self::Mpich || to.exists() {
            return Ok(());
        }
        // Cargo holds it while it compiles.
        let lock = File::open(from.join(".cargo-lock"))?;
        lock.lock_shared()?;
        for folder in [".fingerprint", "build", "deps"] {
            // Programs have no extension; nobody builds on those in deps.
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
