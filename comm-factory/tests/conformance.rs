//! The contract of every backend, through the enum of all backends: here with local, and any set of features.

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

struct Factory;

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory as local";
    const MODEL: Model = Model::LOCAL;

    fn open(_: &Seat) -> Result<CommBackend, Failure> {
        Ok(create_communicator_with(BackendKind::Local)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
