//! The contract of every backend, on this one.
use std::process::ExitCode;

use comm_conformance::{Failure, Model, Seat, Subject};
use comm_tcp::{Encryption, TcpBackend, TcpConfig};

struct Tcp;

impl Subject for Tcp {
    type Comm = TcpBackend;
    const NAME: &'static str = "tcp";
    const MODEL: Model = Model::TCP;

    fn open(seat: &Seat) -> Result<TcpBackend, Failure> {
        let mut config = TcpConfig::new("127.0.0.1", seat.rank(), seat.size());
        (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
        config.secret = Some(seat.name().into());
        if let Ok(encryption) = std::env::var("COBRE_TCP_ENCRYPT") {
            config.encryption = encryption.parse()?;
        }
        if seat.is_relayed() {
            // Between loopback addresses, a relay is let in only where it can do no harm.
            config.encryption = Encryption::On;
        }
        if seat.rank() == 0 {
            return Ok(TcpBackend::connect_with_listener(config, seat.listen()?)?);
        }
        config.port = seat.port()?;
        Ok(TcpBackend::connect(config)?)
    }
}

fn main() -> ExitCode {
    comm_conformance::main::<Tcp>()
}
