//! Looks up the coordinator, for no longer than the remaining time.

use std::io::{Error, ErrorKind, Result};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::mpsc::Receiver;

use super::{Countdown, ask};

/// Looks up the coordinator, repeatedly.
///
/// At most one thread does so at a time.
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
        question: impl FnOnce() -> Result<Vec<SocketAddr>> + Send + 'static,
        time: &mut Countdown,
    ) -> Result<Vec<SocketAddr>> {
        let answer = match self.under_way.take() {
            Some(answer) => answer,
            None => ask("comm-tcp lookup", question)?,
        };
        time.answer(&answer).unwrap_or_else(|| {
            self.under_way = Some(answer);
            let reason = format!("looking up {host} takes longer");
            Err(Error::new(ErrorKind::TimedOut, reason))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::{Duration, Instant};

    use super::*;

    /// An unresponsive name server delays a rank for no longer than its connect timeout.
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
        // The lookup in progress is awaited; no other is started.
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
