//! How the suite opens a seat on this backend.

use comm_conformance::{Failure, Seat};
use comm_tcp::{Encryption, TcpBackend, TcpConfig};

/// Opens a seat, with links between neighbours or only to rank 0.
pub(crate) fn open(seat: &Seat, ring: bool) -> Result<TcpBackend, Failure> {
    let mut config = TcpConfig::new("127.0.0.1", seat.rank(), seat.size());
    (config.timeout, config.connect_timeout) = (seat.timeout(), seat.connect_timeout());
    config.secret = Some(seat.name().into());
    config.ring = ring;
    if let Ok(encryption) = std::env::var("COBRE_TCP_ENCRYPT") {
        config.encryption = encryption.parse()?;
    }
    if seat.is_relayed() {
        // Between loopback addresses, a relay is accepted only where it can do no harm.
        config.encryption = Encryption::On;
    }
    if seat.rank() == 0 {
        return Ok(TcpBackend::connect_with_listener(config, seat.listen()?)?);
    }
    config.port = seat.port()?;
    Ok(TcpBackend::connect(config)?)
}
