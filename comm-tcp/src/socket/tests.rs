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
fn an_idle_link_is_probed_after_an_eighth_of_the_timeout_and_ends_after_ten() {
    let (link, _other) = pair();
    for (timeout, idle, interval, count) in [
        (Some(seconds(16)), 2, 1, 18),
        (Some(seconds(32)), 4, 2, 18),
        // Whole seconds, rounded up.
        (Some(seconds(2)), 1, 1, 8),
        (Some(seconds(3600)), 7, 4, 15),
        (None, 7, 4, 15),
    ] {
        sockopt::set_socket_keepalive(&link, false).unwrap();
        tune(&link, timeout).unwrap();
        assert!(sockopt::socket_keepalive(&link).unwrap(), "{timeout:?}");
        assert_eq!(sockopt::tcp_keepidle(&link).unwrap(), seconds(idle));
        assert_eq!(sockopt::tcp_keepintvl(&link).unwrap(), seconds(interval));
        assert_eq!(sockopt::tcp_keepcnt(&link).unwrap(), count, "{timeout:?}");
    }
}

/// A worker gives up on rank 0 only when the word of a judge that gave up on the worker has come for certain: the judge
/// decided an eighth of the span before, which the age of the last sign of life may differ by, or earlier.
#[test]
fn the_judge_gives_up_first_and_the_system_last() {
    for timeout in [Some(1), Some(8), Some(16), Some(60), Some(3600), None] {
        let patience = Patience::of(timeout.map(seconds));
        let (idle, interval) = patience.keepalive();
        let (judge, worker) = (patience.of_the_judge(), patience.of_a_worker());
        assert!(!patience.is_quiet(idle + interval), "{timeout:?}");
        assert!(patience.is_quiet(judge), "{timeout:?}");
        assert!(worker >= judge + patience.span / 8 + idle, "{timeout:?}");
        assert_eq!(judge + patience.of_last_words(), worker);
        assert!(worker <= seconds(60), "{timeout:?}");
        assert!(judge >= interval * 4 + idle, "{timeout:?}");
    }
}

/// Keepalive waits while sent bytes are unacknowledged.
#[cfg(target_os = "linux")]
#[test]
fn a_watch_link_outlives_the_decision_about_it() {
    let (link, _other) = pair();
    for is_judge in [true, false] {
        tune_watch(&link, Some(seconds(40)), is_judge).unwrap();
        assert!(sockopt::socket_keepalive(&link).unwrap());
        assert_eq!(sockopt::tcp_user_timeout(&link).unwrap(), 65_000);
    }
}

/// What comes ends the silence, whether or not anybody reads it; no process has to answer.
#[cfg(target_os = "linux")]
#[test]
fn silence_lasts_until_something_comes() {
    use std::io::Write;
    let (link, mut other) = pair();
    other.write_all(b"one").unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let before = silence(&link).unwrap().lasts;
    assert!(before >= Duration::from_millis(250), "{before:?}");
    other.write_all(b"two").unwrap();
    let began = Instant::now();
    while silence(&link).unwrap().lasts >= before {
        assert!(began.elapsed() < seconds(20), "it is silent");
        std::thread::yield_now();
    }
    while silence(&other).unwrap().unconfirmed {
        assert!(began.elapsed() < seconds(20), "it is never confirmed");
        std::thread::yield_now();
    }
    // Nobody is asked about a link that is none of this kind.
    let (within, _) = std::os::unix::net::UnixStream::pair().unwrap();
    assert_eq!(silence(&within), None);
    assert!(!leaves_machine(&within) && !leaves_machine(&link));
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
