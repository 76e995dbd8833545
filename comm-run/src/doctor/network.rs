//! The network, as far as one machine can check it.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use super::Finding;

/// The default port of tcp jobs.
const USUAL_PORT: u16 = 29500;
/// Far longer than a connection to the same machine takes.
const TIMEOUT: Duration = Duration::from_secs(2);

pub(super) fn loopback() -> Finding {
    // Connects, too: on an interface that is down, listening works but connecting does not.
    let reached = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| {
        let address = listener.local_addr()?;
        TcpStream::connect_timeout(&address, TIMEOUT)
    });
    match reached {
        Ok(_) => Finding::fine("loopback", "127.0.0.1 can be reached"),
        Err(error) => {
            let advice = "--backend tcp needs it: ip link set lo up";
            Finding::warning("loopback", format!("127.0.0.1: {error}"), advice)
        }
    }
}

pub(super) fn usual_port() -> Finding {
    port(USUAL_PORT)
}

fn port(port: u16) -> Finding {
    let what = "port";
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Finding::fine(what, format!("{port} is free on loopback")),
        Err(error) if error.kind() == ErrorKind::AddrInUse => Finding::warning(
            what,
            format!("{port} is taken on loopback"),
            "choose another with --coordinator HOST:PORT or COBRE_TCP_PORT; on one machine comm-run finds a free port by itself",
        ),
        Err(error) => Finding::warning(
            what,
            format!("cannot listen on {port}: {error}"),
            "use another port",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::port;
    use crate::doctor::Level;

    #[test]
    fn a_port_that_is_taken_is_found_out() {
        let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let finding = port(taken.local_addr().unwrap().port());
        assert_eq!(finding.level, Level::Warning);
        assert!(finding.to_string().contains("--coordinator"), "{finding}");
    }
}
