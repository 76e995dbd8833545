//! Looking up the coordinator, for no longer than there is time.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};

use super::Countdown;

/// Looks up the coordinator again and again.
///
/// The system may take as long as it likes for that, and nobody can interrupt it. So a thread asks;
/// at most one at a time, which ends when the system answers.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    under_way: Option<Receiver<Result<Vec<SocketAddr>>>>,
}

impl Lookup {
    /// Returns the addresses of a host.
    pub(crate) fn addresses(
        &mut self,
        host: &str,
        port: u16,
        time: &mut Countdown,
    ) -> Result<Vec<SocketAddr>> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, port)]);
        }
        let name = host.to_owned();
        let ask = move || Ok((name.as_str(), port).to_socket_addrs()?.collect());
        self.ask(host, ask, time)
    }

    fn ask(
        &mut self,
        host: &str,
        ask: impl FnOnce() -> Result<Vec<SocketAddr>> + Send + 'static,
        time: &mut Countdown,
    ) -> Result<Vec<SocketAddr>> {
        let receiver = if let Some(receiver) = self.under_way.take() {
            receiver
        } else {
            let (sender, receiver) = mpsc::channel();
            let thread = std::thread::Builder::new().name("comm-tcp lookup".to_owned());
            thread.spawn(move || {
                // Nobody waits for it any more, perhaps.
                let _ = sender.send(ask());
            })?;
            receiver
        };
        loop {
            match time.receive(&receiver) {
                Ok(addresses) => return addresses,
                Err(RecvTimeoutError::Timeout) if time.left().is_zero() => {
                    self.under_way = Some(receiver);
                    let reason = format!("looking up {host} takes longer than that");
                    return Err(Error::new(ErrorKind::TimedOut, reason));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Error::other(format!("{host} could not be looked up")));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    /// A name server that does not answer keeps a rank no longer than its connect timeout.
    #[test]
    fn a_lookup_that_blocks_ends_with_the_connect_timeout() {
        let (unblock, blocked) = mpsc::channel::<()>();
        let began = Instant::now();
        let mut time = Countdown::new(Duration::from_millis(200));
        let mut lookup = Lookup::default();
        let blocks = move || {
            let _ = blocked.recv();
            Ok(Vec::new())
        };
        let error = lookup.ask("node-0", blocks, &mut time).unwrap_err();
        assert!(error.to_string().contains("looking up node-0"), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5));
        // The one that is under way is waited for; no other is begun.
        drop(unblock);
        let mut time = Countdown::new(Duration::from_secs(20));
        let second = || panic!("a second lookup was begun");
        assert_eq!(lookup.ask("node-0", second, &mut time).unwrap(), []);
    }

    #[test]
    fn an_address_is_not_looked_up_and_a_name_is() {
        let mut time = Countdown::new(Duration::from_secs(20));
        let mut lookup = Lookup::default();
        let found = lookup.addresses("10.0.0.1", 5, &mut time).unwrap();
        assert_eq!(found, [SocketAddr::from(([10, 0, 0, 1], 5))]);
        let found = lookup.addresses("localhost", 5, &mut time).unwrap();
        assert!(found.iter().all(|found| found.ip().is_loopback()) && !found.is_empty());
    }
}
