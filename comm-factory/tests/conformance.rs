//! The contract of every backend, through the enum that can be any of them.
use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

struct Factory;

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory";
    #[cfg(feature = "shm")]
    const MODEL: Model = Model::SHM;
    #[cfg(not(feature = "shm"))]
    const MODEL: Model = Model::LOCAL;

    fn open(seat: &Seat) -> Result<CommBackend, Failure> {
        #[cfg(feature = "shm")]
        let kind = {
            let (name, rank, size) = (seat.name(), seat.rank(), seat.size());
            let mut config = comm_factory::shm::ShmConfig::new(name, rank, size);
            (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
            BackendKind::Shm(config)
        };
        #[cfg(not(feature = "shm"))]
        let kind = if seat.size() == 1 {
            BackendKind::Local
        } else {
            BackendKind::Auto
        };
        Ok(create_communicator_with(kind)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
