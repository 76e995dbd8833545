//! A job that cannot start because a rank is missing: which rank is named, and by which ranks.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread::JoinHandle;
use std::time::Duration;

use comm_tcp::{InitError, TcpBackend, TcpConfig};
use common::{config, listener};
use rstest::rstest;

type Failing = JoinHandle<InitError>;

/// Starts rank 0, which must fail.
fn zero(size: usize, timeout: Duration) -> (u16, Failing) {
    let (listener, port) = listener();
    let mut config = config(0, size, port);
    config.connect_timeout = timeout;
    let zero = std::thread::spawn(move || {
        TcpBackend::connect_with_listener(config, listener)
            .map(drop)
            .unwrap_err()
    });
    (port, zero)
}

fn worker(rank: usize, size: usize, port: u16, timeout: Duration) -> Failing {
    let mut config = config(rank, size, port);
    config.connect_timeout = timeout;
    std::thread::spawn(move || TcpBackend::connect(config).map(drop).unwrap_err())
}

/// Whichever rank times out first, rank 2 is to blame, and no message suspects that rank 0 was not started.
#[rstest]
#[case::workers_first(8, 4)]
#[case::rank_0_first(4, 8)]
fn a_rank_that_was_never_started_is_named_by_all_who_were(
    #[case] seconds_of_0: u64,
    #[case] seconds: u64,
) {
    let (port, zero) = zero(4, Duration::from_secs(seconds_of_0));
    let workers = [1, 3].map(|rank| worker(rank, 4, port, Duration::from_secs(seconds)));
    for worker in workers {
        let error = worker.join().unwrap();
        assert!(error.message.contains("rank 2"), "{error}");
        assert!(
            !error.message.contains("check that rank 0 is started"),
            "{error}"
        );
        let variable = "COBRE_TCP_CONNECT_TIMEOUT_MS".to_owned();
        assert!(error.variables.contains(&variable), "{error:?}");
    }
    let error = zero.join().unwrap();
    assert!(
        error.message.contains("1 of 4 ranks did not join within")
            && error.message.contains("s: rank 2;"),
        "{error}"
    );
    if seconds_of_0 > seconds {
        // The reason why the other ranks left is known, too.
        let left = "ranks 1 (127.0.0.1), 3 (127.0.0.1) joined and left again";
        assert!(error.message.contains(left), "{error}");
        assert!(
            error.message.contains("its connect timeout of 4s"),
            "{error}"
        );
    }
}

/// A rank that connected and was refused is not just missing.
#[rstest]
#[case::secret(|c: &mut TcpConfig| c.secret = Some("guess".into()), "an unknown process at 127.0.0.1", "COBRE_TCP_SECRET")]
#[case::size(|c: &mut TcpConfig| c.size = 3, "rank 1 at 127.0.0.1", "COBRE_TCP_SIZE")]
#[case::job(|c: &mut TcpConfig| c.job_id = Some("other".into()), "rank 1 at 127.0.0.1", "COBRE_JOB_ID")]
fn what_rank_0_refused_is_part_of_its_error(
    #[case] spoil: fn(&mut TcpConfig),
    #[case] who: &str,
    #[case] variable: &str,
) {
    let (port, zero) = zero(2, Duration::from_secs(6));
    let mut config = config(1, 2, port);
    config.connect_timeout = Duration::from_secs(3);
    spoil(&mut config);
    TcpBackend::connect(config).map(drop).unwrap_err();
    let error = zero.join().unwrap();
    assert!(error.message.contains(who), "{error}");
    assert!(error.message.contains(variable), "{error}");
}

/// A worker of another version reports that, and disconnects.
#[rstest]
#[case::all_of_it(&b"cobrecom\x7f\xff\x01\x10 and what only that version knows"[..])]
#[case::no_more_than_its_version(&b"cobrecom\x7f\xff"[..])]
fn another_version_is_part_of_the_error_of_rank_0(#[case] hello: &[u8]) {
    let (port, zero) = zero(2, Duration::from_secs(6));
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let mut challenge = [0; 44];
    stream.read_exact(&mut challenge).unwrap();
    stream.write_all(hello).unwrap();
    let error = zero.join().unwrap();
    assert!(
        error
            .message
            .contains("an unknown process at 127.0.0.1 (another version of this library)"),
        "{error}"
    );
}
