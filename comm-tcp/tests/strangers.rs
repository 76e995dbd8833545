//! Strangers that connect to a job: refused, and the real job starts all the same.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use comm_api::Communicator;
use comm_tcp::{InitError, TcpBackend, TcpConfig};
use comm_testing::not_run;
use common::{config, listener, names, refused};
use rstest::rstest;

/// Starts rank 0 of two, lets strangers connect, then lets rank 1 join; both must start.
fn job_with(strangers: impl FnOnce(u16)) {
    let (listener, port) = listener();
    let zero = std::thread::spawn(move || {
        let comm = TcpBackend::connect_with_listener(config(0, 2, port), listener).unwrap();
        comm.barrier().unwrap();
    });
    strangers(port);
    let started = Instant::now();
    let comm = TcpBackend::connect(config(1, 2, port)).unwrap();
    comm.barrier().unwrap();
    zero.join().unwrap();
    assert!(
        started.elapsed() < Duration::from_secs(5),
        "strangers held up the job"
    );
}

/// Without the secret, no process can prove that it is rank 0 that refuses: the worker retries until its time
/// is over.
#[rstest]
#[case::secret(Some("guess".into()))]
#[case::no_secret(None)]
fn a_worker_with_another_secret_is_told_why(#[case] secret: Option<Vec<u8>>) {
    job_with(|port| {
        let mut config = config(1, 2, port);
        config.secret = secret;
        config.connect_timeout = Duration::from_secs(3);
        names(&refused(config), "COBRE_TCP_SECRET");
    });
}

#[rstest]
#[case::size(|c: &mut TcpConfig| c.size = 3, "COBRE_TCP_SIZE")]
#[case::job(|c: &mut TcpConfig| c.job_id = Some("other".into()), "COBRE_JOB_ID")]
fn a_worker_that_does_not_fit_is_told_why(
    #[case] spoil: fn(&mut TcpConfig),
    #[case] variable: &str,
) {
    job_with(|port| {
        let mut config = config(1, 2, port);
        spoil(&mut config);
        names(&refused(config), variable);
    });
}

#[test]
fn a_second_worker_of_the_same_rank_is_refused() {
    let (listener, port) = listener();
    let zero = std::thread::spawn(move || {
        TcpBackend::connect_with_listener(config(0, 3, port), listener).map(drop)
    });
    let one = std::thread::spawn(move || TcpBackend::connect(config(1, 3, port)).map(drop));
    let other = std::thread::spawn(move || TcpBackend::connect(config(1, 3, port)).map(drop));
    // One of the two is refused; that one is out before rank 2 joins.
    while !one.is_finished() && !other.is_finished() {
        std::thread::yield_now();
    }
    TcpBackend::connect(config(2, 3, port)).map(drop).unwrap();
    zero.join().unwrap().unwrap();
    let refused: Vec<InitError> = [one.join().unwrap(), other.join().unwrap()]
        .into_iter()
        .filter_map(Result::err)
        .collect();
    assert_eq!(refused.len(), 1);
    names(&refused[0], "COBRE_TCP_RANK");
}

/// What other programs send to a port.
#[rstest]
#[case::nothing(b"")]
#[case::a_browser(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")]
#[case::zeros(&[0; 4096])]
#[case::half_a_hello(b"cobrecom\0\x05\x01")]
#[case::another_version(b"cobrecom\x7f\xff")]
fn other_programs_are_let_go(#[case] bytes: &'static [u8]) {
    job_with(|port| {
        for _ in 0..3 {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let _ = stream.write_all(bytes);
        }
    });
}

#[test]
fn a_hello_recorded_from_another_job_is_worth_nothing() {
    // A listener of the test records the bytes of a worker, and replays them to the real rank 0 later.
    let (recorder, recorder_port) = listener();
    let worker = std::thread::spawn(move || {
        let mut config = config(1, 2, recorder_port);
        config.connect_timeout = Duration::from_millis(500);
        TcpBackend::connect(config).map(drop)
    });
    job_with(|port| {
        let (mut victim, _) = recorder.accept().unwrap();
        let mut real = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut challenge = [0; 44];
        real.read_exact(&mut challenge).unwrap();
        let mut stale = challenge;
        stale[20] ^= 1;
        victim.write_all(&stale).unwrap();
        let mut hello = [0; 184];
        victim.read_exact(&mut hello).unwrap();
        real.write_all(&hello).unwrap();
        let mut reply = [0; 52];
        real.read_exact(&mut reply).unwrap();
        assert_ne!(reply[0], 0, "a replayed proof was welcome");
        drop(victim);
    });
    drop(recorder);
    assert!(worker.join().unwrap().is_err());
}

#[test]
fn two_hundred_that_say_nothing_keep_nobody_out() {
    let mut silent = Vec::new();
    job_with(|port| {
        for _ in 0..200 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).unwrap());
        }
    });
    assert_eq!(silent.len(), 200);
}

#[test]
fn a_slow_drip_of_bytes_keeps_nobody_out() {
    job_with(|port| {
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
            for byte in b"cobrecom\0\x05\x01\x10\0\0\0" {
                if stream.write_all(&[*byte]).is_err() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    });
}

#[test]
fn a_worker_that_vanishes_before_the_start_may_come_again() {
    let (listener, port) = listener();
    let zero = std::thread::spawn(move || {
        TcpBackend::connect_with_listener(config(0, 3, port), listener).map(drop)
    });
    // It takes its seat, waits for rank 2 in vain, and times out.
    let mut impatient = config(1, 3, port);
    impatient.connect_timeout = Duration::from_millis(300);
    assert!(TcpBackend::connect(impatient).is_err());
    let one = std::thread::spawn(move || TcpBackend::connect(config(1, 3, port)).map(drop));
    TcpBackend::connect(config(2, 3, port)).map(drop).unwrap();
    one.join().unwrap().unwrap();
    zero.join().unwrap().unwrap();
}

#[test]
fn ranks_that_do_not_come_are_named_on_every_rank() {
    let (listener, port) = listener();
    let short = move |rank| {
        let mut config = config(rank, 4, port);
        config.connect_timeout = Duration::from_millis(700);
        config
    };
    let zero =
        std::thread::spawn(move || TcpBackend::connect_with_listener(short(0), listener).map(drop));
    let mut patient = short(2);
    patient.connect_timeout = Duration::from_secs(20);
    let two = TcpBackend::connect(patient).map(drop).unwrap_err();
    let zero = zero.join().unwrap().unwrap_err();
    for error in [zero, two] {
        assert!(error.message.contains("1, 3"), "{error}");
        assert!(
            error
                .variables
                .contains(&"COBRE_TCP_CONNECT_TIMEOUT_MS".to_owned())
        );
    }
}

#[test]
fn rank_0_may_come_last() {
    let (listener, port) = listener();
    drop(listener);
    let one = std::thread::spawn(move || TcpBackend::connect(config(1, 2, port)).map(drop));
    std::thread::sleep(Duration::from_millis(100));
    TcpBackend::connect(config(0, 2, port)).map(drop).unwrap();
    one.join().unwrap().unwrap();
}

#[test]
fn a_busy_port_is_named_with_the_variable_to_change() {
    let (_busy, port) = listener();
    let error = TcpBackend::connect(config(0, 2, port))
        .map(drop)
        .unwrap_err();
    assert!(
        error.message.contains(&format!("127.0.0.1:{port}")),
        "{error}"
    );
    assert_eq!(error.variables, ["COBRE_TCP_PORT"]);
}

#[test]
fn beyond_loopback_a_secret_is_needed() {
    let mut open = TcpConfig::new("127.0.0.1", 0, 2);
    open.port = 0;
    open.bind_addr = Some("0.0.0.0".parse().unwrap());
    names(&refused(open), "COBRE_TCP_SECRET");
    // Nothing listens there, and nothing is sent there either.
    let worker = TcpConfig::new("192.0.2.1", 1, 2);
    names(&refused(worker), "COBRE_TCP_SECRET");
    let (every, _) = (TcpListener::bind("0.0.0.0:0").unwrap(), 0);
    let error = TcpBackend::connect_with_listener(TcpConfig::new("127.0.0.1", 0, 2), every);
    names(&error.map(drop).unwrap_err(), "COBRE_TCP_SECRET");
}

#[rstest]
#[case::v6("::1")]
#[case::name("localhost")]
fn other_ways_to_write_loopback_work(#[case] coordinator: &'static str) {
    if coordinator == "::1" && TcpListener::bind("[::1]:0").is_err() {
        not_run("this machine has no IPv6 loopback");
        return;
    }
    let (probe, port) = listener();
    drop(probe);
    let with = move |rank| {
        let mut config = config(rank, 3, port);
        config.coordinator = coordinator.into();
        config
    };
    let ranks: Vec<_> = (0..3)
        .map(|rank| {
            std::thread::spawn(move || TcpBackend::connect(with(rank)).unwrap().barrier().unwrap())
        })
        .collect();
    for rank in ranks {
        rank.join().unwrap();
    }
}

#[test]
fn two_jobs_side_by_side_do_not_meet() {
    let jobs: Vec<_> = (0..2)
        .map(|_| std::thread::spawn(|| common::world(3, |_| (), |comm| comm.barrier().unwrap())))
        .collect();
    for job in jobs {
        assert_eq!(job.join().unwrap().len(), 3);
    }
}
