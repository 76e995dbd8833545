//! The contract of every backend, through the enum of all backends: here with shared memory.

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_factory::shm::ShmConfig;
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

struct Factory;

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory as shm";
    const MODEL: Model = Model::SHM;

    fn open(seat: &Seat) -> Result<CommBackend, Failure> {
        let mut config = ShmConfig::new(seat.name(), seat.rank(), seat.size());
        (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
        Ok(create_communicator_with(BackendKind::Shm(config))?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
