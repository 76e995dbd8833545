//! The contract of every backend, on this one. A name is a port: the same again for the same name.
use std::{collections::BTreeMap, net::TcpListener, process::ExitCode, sync::Mutex};

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_tcp::{TcpBackend, TcpConfig};

struct Tcp;
static PORTS: Mutex<BTreeMap<String, u16>> = Mutex::new(BTreeMap::new());

impl Subject for Tcp {
    type Comm = TcpBackend;
    const NAME: &'static str = "tcp";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<TcpBackend, Failure> {
        let mut config = TcpConfig::new("127.0.0.1", seat.rank(), seat.size());
        (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
        config.secret = Some(seat.name().to_owned());
        if seat.rank() > 0 {
            config.port = seat.lookup("port")?.parse()?;
            return Ok(TcpBackend::connect(config)?);
        }
        let known = PORTS
            .lock()
            .map_or(0, |ports| *ports.get(seat.name()).unwrap_or(&0));
        let listener = TcpListener::bind(("127.0.0.1", known))?;
        let port = listener.local_addr()?.port();
        PORTS
            .lock()
            .map(|mut ports| ports.insert(seat.name().to_owned(), port))
            .ok();
        seat.publish("port", &port.to_string())?;
        Ok(TcpBackend::connect_with_listener(config, listener)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Tcp>()
}
