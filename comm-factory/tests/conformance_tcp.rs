//! The contract of every backend, through the enum that can be any of them: here as sockets.
//!
//! A name is a port: the same again for the same name.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Mutex;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_factory::tcp::{TcpBackend, TcpConfig};
use comm_factory::{BackendKind, CommBackend, create_communicator_with};

struct Factory;
static PORTS: Mutex<BTreeMap<String, u16>> = Mutex::new(BTreeMap::new());

impl Subject for Factory {
    type Comm = CommBackend;
    const NAME: &'static str = "factory as tcp";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<CommBackend, Failure> {
        let mut config = TcpConfig::new("127.0.0.1", seat.rank(), seat.size());
        (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
        config.secret = Some(seat.name().to_owned());
        if seat.rank() > 0 {
            config.port = seat.lookup("port")?.parse()?;
            return Ok(create_communicator_with(BackendKind::Tcp(config))?);
        }
        // Held from here on, so that nobody else gets the port: the way of a program with a listener of its own.
        let mut ports = PORTS.lock().map_err(|error| error.to_string())?;
        let known = ports.get(seat.name()).copied().unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", known))?;
        let port = listener.local_addr()?.port();
        ports.insert(seat.name().to_owned(), port);
        drop(ports);
        seat.publish("port", &port.to_string())?;
        Ok(TcpBackend::connect_with_listener(config, listener)?.into())
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Factory>()
}
