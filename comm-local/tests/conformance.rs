//! The contract of every backend, checked on this one.

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_local::LocalBackend;

struct Local;

impl Subject for Local {
    type Comm = LocalBackend;
    const NAME: &'static str = "local";
    const MODEL: Model = Model::LOCAL;

    fn open(_: &Seat) -> Result<LocalBackend, Failure> {
        Ok(LocalBackend::new())
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Local>()
}
