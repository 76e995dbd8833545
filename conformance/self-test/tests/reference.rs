//! The suite on its own reference: the first subject with more than one rank.

use std::process::ExitCode;

use comm_conformance::reference::Reference;
use comm_conformance::{Failure, Model, Seat, Subject};

struct Oracle;

impl Subject for Oracle {
    type Comm = Reference;
    const NAME: &'static str = "reference";
    const MODEL: Model = Model::REFERENCE;

    fn open(seat: &Seat) -> Result<Reference, Failure> {
        Ok(Reference::open(
            seat.name(),
            seat.rank(),
            seat.size(),
            seat.timeout(),
        )?)
    }
}

fn main() -> ExitCode {
    // Eight threads that take turns would take half of the total time, and find what four find.
    comm_conformance::main_in::<Oracle>(&[1, 2, 3, 4])
}
