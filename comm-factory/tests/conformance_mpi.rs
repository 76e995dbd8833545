//! The contract of every backend, through the enum of all backends: here with MPI.
//!
//! `MPIEXEC` names the `mpiexec` of the MPI library that the test is built with; the default is the one in `PATH`.

use std::process::ExitCode;

use comm_conformance::{Failure, Launcher, Model, Seat, Subject};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

/// Open MPI needs these to run as root, and more ranks than cores. Other libraries ignore them.
const SETTINGS: [(&str, &str); 6] = [
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_hwloc_base_binding_policy", "none"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
    ("PRTE_MCA_hwloc_default_binding_policy", "none"),
];

struct Factory;

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory as mpi";
    const MODEL: Model = Model::MPI;

    fn launcher(world: usize) -> Result<Option<Launcher>, Failure> {
        let program = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
        let mut launcher = Launcher::mpi(program, [""; 0], world);
        for (name, value) in SETTINGS {
            launcher = launcher.env(name, value);
        }
        Ok(Some(launcher))
    }

    fn open(_: &Seat) -> Result<CommBackend, Failure> {
        Ok(create_communicator_with(BackendKind::Mpi)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
