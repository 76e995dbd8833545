//! The socket options that the system reports.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Instant;

use rustix::net::{bind, socket};

use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A vanished host sends nothing: the system detects it by probing.
#[test]
fn a_link_is_probed_after_a_quarter_of_the_timeout_and_ends_within_it() {
    let (link, _other) = pair();
    for (timeout, idle, interval) in [
        (Some(seconds(40)), seconds(10), seconds(5)),
        (Some(seconds(2)), seconds(1), seconds(1)),
        // Whole seconds, rounded up.
        (Some(seconds(3600)), seconds(15), seconds(8)),
        (None, seconds(15), seconds(8)),
    ] {
        sockopt::set_socket_keepalive(&link, false).unwrap();
        tune(&link, timeout).unwrap();
        assert!(sockopt::socket_keepalive(&link).unwrap(), "{timeout:?}");
        assert_eq!(sockopt::tcp_keepidle(&link).unwrap(), idle);
        assert_eq!(sockopt::tcp_keepintvl(&link).unwrap(), interval);
        assert_eq!(sockopt::tcp_keepcnt(&link).unwrap(), 4);
    }
}

/// Keepalive waits while sent bytes are unacknowledged.
#[cfg(target_os = "linux")]
#[test]
fn a_watch_link_ends_in_the_same_time_if_nothing_is_acknowledged() {
    let (link, _other) = pair();
    tune_watch(&link, Some(seconds(40))).unwrap();
    assert!(sockopt::socket_keepalive(&link).unwrap());
    assert_eq!(sockopt::tcp_user_timeout(&link).unwrap(), 30_000);
}

/// A connection to a free port of the own machine may be assigned that very port, and connect to itself.
#[test]
fn a_connection_to_oneself_is_nobody_who_answers() {
    let own = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&own, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    let own = TcpStream::from(own);
    let address = own.local_addr().unwrap();
    rustix::net::connect(&own, &address).unwrap();
    assert_eq!(own.peer_addr().unwrap(), address);
    let error = finish_connect(&own).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn a_connection_to_another_is_one() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let stream = begin_connect(listener.local_addr().unwrap()).unwrap();
    let began = Instant::now();
    let (_other, _) = listener.accept().unwrap();
    while finish_connect(&stream).is_err() {
        assert!(began.elapsed() < seconds(20), "it is never connected");
        std::thread::yield_now();
    }
}
