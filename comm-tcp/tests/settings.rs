//! Settings at their limits: busy ports, empty secrets, timeouts of every length.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::sync::{Arc, Barrier};
use std::time::Duration;

use comm_api::{CommError, Communicator, FailureKind};
use comm_tcp::{TcpBackend, TcpConfig};
use comm_testing::not_run;
use common::{config, listener, names, refused};
use rstest::rstest;

/// A port that is busy on one loopback address is not taken on the other: the workers of both jobs would look
/// for their rank 0 on both.
#[test]
fn a_busy_port_is_busy_however_loopback_is_written() {
    let (_busy, port) = listener();
    let mut config = config(0, 2, port);
    config.coordinator = "localhost".into();
    config.connect_timeout = Duration::from_millis(200);
    let error = TcpBackend::connect(config).map(drop).unwrap_err();
    assert_eq!(error.variables, ["COBRE_TCP_PORT"], "{error}");
    assert!(
        error.message.contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
}

/// An empty secret is no secret: it protects nothing.
#[rstest]
fn an_empty_secret_is_refused(#[values("", " \n")] secret: &str, #[values(0, 1)] rank: usize) {
    let mut config = TcpConfig::new("127.0.0.1", rank, 2);
    config.secret = Some(secret.into());
    config.bind_addr = Some("0.0.0.0".parse().unwrap());
    config.connect_timeout = Duration::from_millis(200);
    names(&refused(config), "COBRE_TCP_SECRET");
}

#[test]
fn port_0_is_nowhere_to_be_found() {
    names(&refused(config(1, 2, 0)), "COBRE_TCP_PORT");
}

/// Infinite timeouts, and timeouts of zero, are timeouts like others.
#[test]
fn any_timeout_can_be_lived_with() {
    let adjust = |config: &mut TcpConfig| {
        config.connect_timeout = Duration::MAX;
        config.timeout = Some(Duration::MAX);
    };
    common::world(3, adjust, |comm| comm.barrier().unwrap());
    // No timeout, like 0 in the variable.
    let adjust = |config: &mut TcpConfig| config.timeout = Some(Duration::ZERO);
    common::world(3, adjust, |comm| {
        if comm.rank() == 2 {
            std::thread::sleep(Duration::from_millis(60));
        }
        comm.barrier().unwrap();
    });
}

/// However short the timeout, all ranks name the absent one.
#[rstest]
fn a_short_timeout_names_the_absent_rank(#[values(1, 10, 40)] millis: u64) {
    let gone = Arc::new(Barrier::new(3));
    let adjust = move |config: &mut TcpConfig| config.timeout = Some(Duration::from_millis(millis));
    let results = common::world(3, adjust, move |comm| {
        let result = if comm.rank() == 2 {
            Ok(())
        } else {
            comm.barrier()
        };
        // No rank leaves before all have got their errors.
        gone.wait();
        result
    });
    for (rank, result) in results.into_iter().enumerate().take(2) {
        match result.unwrap_err() {
            CommError::CollectiveFailed {
                kind,
                rank: blamed,
                message,
                ..
            } => {
                let expected = (FailureKind::TimedOut, Some(2));
                assert_eq!((kind, blamed), expected, "on rank {rank}: {message}");
            }
            other => panic!("{other} on rank {rank}"),
        }
    }
}

/// The debug output of a communicator shows no data that is in flight between the ranks.
#[test]
fn a_communicator_prints_as_one_short_line() {
    let shown = common::world(2, |_| (), |comm| format!("{comm:?}"));
    assert_eq!(shown[1], "TcpBackend { rank: 1, size: 2, .. }");
}

/// A name may have several addresses, and another job may listen on one of them.
#[test]
fn another_job_on_another_address_of_the_name_does_no_harm() {
    let (own, port) = listener();
    let Ok(other) = std::net::TcpListener::bind(("::1", port)) else {
        not_run("there is no IPv6 loopback, or its port is taken");
        return;
    };
    let stranger = std::thread::spawn(move || {
        let mut config = config(0, 2, port);
        config.secret = Some("of another job".into());
        config.connect_timeout = Duration::from_millis(500);
        TcpBackend::connect_with_listener(config, other).map(drop)
    });
    let zero = std::thread::spawn(move || {
        TcpBackend::connect_with_listener(config(0, 2, port), own).map(drop)
    });
    let mut one = config(1, 2, port);
    one.coordinator = "localhost".into();
    TcpBackend::connect(one).map(drop).unwrap();
    zero.join().unwrap().unwrap();
    stranger.join().unwrap().unwrap_err();
}
