//! Worlds of ranks for the tests: threads of one process, each with its own communicator.

#![allow(dead_code, reason = "each test file uses a part of this")]

pub(crate) mod clock;
pub(crate) mod ranks;
pub(crate) mod reset;

use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use comm_tcp::{InitError, InitErrorKind, TcpBackend, TcpConfig};

/// The maximum duration of a world; a longer one hangs.
pub(crate) const WATCHDOG: Duration = Duration::from_mins(1);

/// Opens a listener on a free port of loopback.
pub(crate) fn listener() -> (TcpListener, u16) {
    comm_testing::watchdog();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

pub(crate) fn config(rank: usize, size: usize, port: u16) -> TcpConfig {
    let mut config = TcpConfig::new("127.0.0.1", rank, size);
    config.port = port;
    config.secret = Some("a secret of the tests".into());
    config.timeout = Some(Duration::from_secs(20));
    config.connect_timeout = Duration::from_secs(20);
    config
}

/// Runs `rank_main` on every rank of a world and returns the results in rank order.
pub(crate) fn world<R: Send + 'static>(
    size: usize,
    adjust: impl Fn(&mut TcpConfig) + Sync,
    rank_main: impl Fn(TcpBackend) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let (listener, port) = listener();
    let mut listener = Some(listener);
    let (sender, receiver) = mpsc::channel();
    for rank in 0..size {
        let mut config = config(rank, size, port);
        adjust(&mut config);
        let listener = listener.take();
        let (sender, rank_main) = (sender.clone(), rank_main.clone());
        std::thread::spawn(move || {
            let comm = match listener {
                Some(listener) => TcpBackend::connect_with_listener(config, listener),
                None => TcpBackend::connect(config),
            };
            sender.send((rank, rank_main(comm.unwrap()))).unwrap();
        });
    }
    drop(sender);
    let mut results: Vec<(usize, R)> = Vec::new();
    while results.len() < size {
        match receiver.recv_timeout(WATCHDOG) {
            Ok(result) => results.push(result),
            Err(error) => panic!("only {} of {size} ranks finished: {error}", results.len()),
        }
    }
    results.sort_by_key(|&(rank, _)| rank);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Tries to join and returns the error.
pub(crate) fn refused(config: TcpConfig) -> InitError {
    let started = Instant::now();
    let error = TcpBackend::connect(config).unwrap_err();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "a refusal is reported at once: {error}"
    );
    error
}

/// Checks that the error names the variable to change.
pub(crate) fn names(error: &InitError, variable: &str) {
    assert_eq!(error.kind, InitErrorKind::InvalidConfiguration, "{error}");
    assert!(
        error.variables.iter().any(|name| name == variable),
        "{error:?}"
    );
}
