//! The contract of every backend, through the enum of all backends: here with TCP.

use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_factory::tcp::{TcpBackend, TcpConfig};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

struct Factory;

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory as tcp";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<CommBackend, Failure> {
        let mut config = TcpConfig::new("127.0.0.1", seat.rank(), seat.size());
        (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
        config.secret = Some(seat.name().into());
        if seat.rank() == 0 {
            // Held until it is used, so that no other program gets the port: as a program with its own listener does.
            return Ok(TcpBackend::connect_with_listener(config, seat.listen()?)?.into());
        }
        config.port = seat.port()?;
        Ok(create_communicator_with(BackendKind::Tcp(config))?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
