//! A process that holds the address of rank 0 before rank 0 does, and does not know the secret.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use comm_api::Communicator;
use comm_tcp::TcpBackend;
use common::{config, listener};
use rstest::rstest;

/// The challenge of a server, of this version or another.
fn challenge(version: u8) -> [u8; 44] {
    let mut challenge = [7; 44];
    challenge[..12].copy_from_slice(b"cobrecom\0\0\0\0");
    challenge[9] = version;
    challenge
}

/// Answers two connections with a refusal, as far as it can create one, and exits.
fn fake(listener: &TcpListener, version: u8, status: u8) {
    listener.set_nonblocking(true).unwrap();
    for _ in 0..2 {
        let began = Instant::now();
        let mut stream = loop {
            match listener.accept() {
                Ok((stream, _)) => break stream,
                Err(_) => assert!(
                    began.elapsed() < Duration::from_secs(10),
                    "the worker does not try again"
                ),
            }
            std::thread::yield_now();
        };
        stream.set_nonblocking(false).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        stream.write_all(&challenge(version)).unwrap();
        let mut hello = [0; 512];
        // A client of another version may send nothing, and disconnect.
        let _ = stream.read(&mut hello);
        let mut reply = [0; 52];
        reply[0] = status;
        let _ = stream.write_all(&reply);
    }
}

/// The worker retries until rank 0 has the port.
#[rstest]
fn a_fake_server_does_not_end_a_worker(
    #[values(1, 2, 3, 4, 5, 6, 7, 8, 9)] status: u8,
    #[values(4, 5)] version: u8,
) {
    let (held, port) = listener();
    let one = std::thread::spawn(move || {
        let comm = TcpBackend::connect(config(1, 2, port)).unwrap();
        comm.barrier().unwrap();
    });
    fake(&held, version, status);
    drop(held);
    // Attempts in the meantime find no listener; the port is free again.
    let comm = TcpBackend::connect(config(0, 2, port)).unwrap();
    comm.barrier().unwrap();
    one.join().unwrap();
}

/// A wrong secret cannot be reported with proof; the worker reports it as the likely reason when its time is
/// over.
#[test]
fn another_secret_is_named_when_the_time_is_over() {
    let (listener, port) = listener();
    let mut zero = config(0, 2, port);
    zero.connect_timeout = Duration::from_secs(8);
    let zero = std::thread::spawn(move || {
        TcpBackend::connect_with_listener(zero, listener)
            .map(drop)
            .unwrap_err()
    });
    let mut one = config(1, 2, port);
    one.secret = Some("guess".into());
    one.connect_timeout = Duration::from_secs(4);
    let began = Instant::now();
    let error = TcpBackend::connect(one).map(drop).unwrap_err();
    assert!(began.elapsed() > Duration::from_secs(2), "{error}");
    assert!(error.message.contains("the secrets differ"), "{error}");
    common::names(&error, "COBRE_TCP_SECRET");
    zero.join().unwrap();
}

/// Rank 0 of another version learns why this rank does not join.
#[test]
fn a_worker_tells_rank_0_of_another_version_its_own() {
    let (held, port) = listener();
    let mut one = config(1, 2, port);
    one.connect_timeout = Duration::from_secs(4);
    let one = std::thread::spawn(move || TcpBackend::connect(one).map(drop).unwrap_err());
    let (mut stream, _) = held.accept().unwrap();
    stream.write_all(&challenge(9)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut said = Vec::new();
    stream.read_to_end(&mut said).unwrap();
    assert_eq!(said, b"cobrecom\0\x05\0\0");
    drop((stream, held));
    let error = one.join().unwrap();
    assert!(error.message.contains("another version"), "{error}");
}
