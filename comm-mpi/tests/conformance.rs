//! The contract of every backend, checked on this one.

mod mpiexec;

use std::process::ExitCode;

use comm_conformance::{Failure, Launcher, Model, Seat, Subject};
use comm_mpi::{FerrompiBackend, MpiConfig};

struct Mpi;

impl Subject for Mpi {
    type Comm = FerrompiBackend;
    const NAME: &'static str = "mpi";
    const MODEL: Model = Model::MPI;

    fn launcher(world: usize) -> Result<Option<Launcher>, Failure> {
        mpiexec::launcher(world).map(Some)
    }

    fn open(_: &Seat) -> Result<FerrompiBackend, Failure> {
        // The suite sets for each case whether the ranks check each other.
        Ok(FerrompiBackend::init(MpiConfig::from_env()?)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Mpi>()
}
