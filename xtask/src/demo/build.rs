//! The programs of a demonstration, with an MPI library or without.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use crate::mpi::Mpi;
use crate::process::{self, cargo, workspace_root};
use crate::report::Outcome;

/// A build, by the MPI library in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Build(pub(super) Option<Mpi>);

impl Build {
    /// Builds the launcher and the solver.
    pub(super) fn compile(self) -> Result<(), String> {
        let (mut build, features) = match self.0 {
            Some(mpi) => (mpi.cargo("build", "sddp"), "sddp/shm,sddp/tcp,sddp/mpi"),
            None => (cargo(&["build", "--package", "sddp"]), "sddp/shm,sddp/tcp"),
        };
        // Not quiet: in a new checkout it takes a minute or more, and the output shows that it makes progress.
        build.args(["--bin", "sddp", "--features", features]);
        build.args(["--package", "comm-run", "--bin", "comm-run"]);
        match process::run(&mut build) {
            Outcome::Passed => Ok(()),
            Outcome::Failed(reason) | Outcome::NotRun(reason) => {
                Err(format!("the build failed: {reason}"))
            }
        }
    }

    /// Finds the folder of the programs: the folder of this program, or with MPI a separate one.
    pub(super) fn programs(self) -> Result<PathBuf, String> {
        if let Some(mpi) = self.0 {
            return Ok(workspace_root().join(mpi.target()).join("debug"));
        }
        let own = std::env::current_exe()
            .map_err(|why| format!("the path of this program is unknown: {why}"))?;
        let folder = own.parent().ok_or("this program lies in no folder")?;
        Ok(folder.to_path_buf())
    }
}

impl Display for Build {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(mpi) => write!(f, "with {}", mpi.name()),
            None => f.write_str("without MPI"),
        }
    }
}
