//! Ranks that know the secret and violate every other rule: the ranks that deal with them keep to their own
//! time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comm_api::{CommError, FailureKind};
use comm_kit::Call;
use rstest::rstest;

use super::seat::{await_frame, vanished};
use super::*;
use crate::error::InitError;
use crate::handshake::Server;
use crate::notice::Notice;
use crate::rendezvous::messages::{Seated, Start};

/// Writes the same bytes again and again, and reads nothing, until it is dropped or the other end is gone.
struct Flood(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Flood {
    fn of(bytes: &[u8], mut stream: TcpStream) -> Self {
        let (stop, bytes) = (Arc::new(AtomicBool::new(false)), bytes.repeat(200));
        let stopped = Arc::clone(&stop);
        stream
            .set_write_timeout(Some(Duration::from_millis(100)))
            .unwrap();
        let flood = move || {
            let mut at = 0;
            while !stopped.load(Ordering::Relaxed) {
                match stream.write(&bytes[at..]) {
                    Ok(count) => at = (at + count) % bytes.len(),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(_) => break,
                }
            }
        };
        Self(stop, Some(thread::spawn(flood)))
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.take().unwrap().join().unwrap();
    }
}

/// Plays rank 0 for one worker of a job of three: accepts both its links.
fn admit(listener: &TcpListener) -> [TcpStream; 2] {
    let keys = Keys::new(SECRET.as_bytes());
    [(); 2].map(|()| {
        let (mut stream, _) = listener.accept().unwrap();
        let server = Server::new(nonce().unwrap(), false);
        stream.write_all(server.challenge()).unwrap();
        let mut hello = [0; HELLO];
        stream.read_exact(&mut hello).unwrap();
        server.hello(&hello, &keys).unwrap();
        let reply = server.reply(&hello, Status::Welcome, &[9; SESSION], &keys);
        stream.write_all(&reply).unwrap();
        stream
    })
}

/// What rank 0 sends a worker once all ranks are there; opening links may take `limit` milliseconds.
fn seat(ring: bool, limit: u64) -> Vec<u8> {
    let seated = Seated {
        successor: NOWHERE,
        local_ranks: 1,
        ring: ring.then_some(Duration::from_millis(limit)),
    };
    frame(FrameKind::Seat, 0, &seated.encode())
}

/// Starts a worker, and gives its links to `lie`; returns its error, and how long it took.
fn lied_to<R>(lie: impl FnOnce([TcpStream; 2]) -> R) -> (InitError, Duration) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut short = config(1, 3, listener.local_addr().unwrap().port());
    short.connect_timeout = Duration::from_secs(1);
    let began = Instant::now();
    let worker = thread::spawn(move || TcpBackend::connect(short).map(drop).unwrap_err());
    let lie = lie(admit(&listener));
    let error = worker.join().unwrap();
    let took = began.elapsed();
    drop(lie);
    (error, took)
}

#[rstest]
fn a_rank_0_that_takes_its_time_to_start_keeps_nobody_beyond_its_connect_timeout(
    #[values(true, false)] ring: bool,
    #[values(0, 5000, u32::MAX)] limit: u32,
) {
    let _turn = listen();
    let (error, took) = lied_to(|[mut data, watch]| {
        data.write_all(&seat(ring, limit.into())).unwrap();
        (data, watch)
    });
    assert!(error.message.contains("rank 0 did not start"), "{error}");
    assert!(took < Duration::from_millis(2500), "took {took:?}: {error}");
}

#[test]
fn a_rank_0_that_never_stops_to_say_who_is_missing_keeps_nobody_beyond_its_connect_timeout() {
    let _turn = listen();
    let missing = frame(FrameKind::Missing, 0, b"rank 2 did not join");
    let (error, took) = lied_to(|[data, watch]| (Flood::of(&missing, data), watch));
    assert!(error.message.contains("rank 2 did not join"), "{error}");
    assert!(took < Duration::from_millis(2500), "took {took:?}: {error}");
}

/// Before all ranks are there, and when they are asked for the ring.
#[rstest]
fn a_worker_that_never_stops_talking_keeps_rank_0_no_longer_than_its_connect_timeout(
    #[values(true, false)] all_come: bool,
) {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut short = config(0, 3, port);
    short.connect_timeout = Duration::from_secs(2);
    let began = Instant::now();
    let zero = thread::spawn(move || TcpBackend::connect_with_listener(short, listener).map(drop));
    let [data, _watch] = vanished(1, 3, port);
    let other = all_come.then(|| vanished(2, 3, port));
    let flood = Flood::of(&frame(FrameKind::Pong, 0, &[]), data);
    let error = zero.join().unwrap().unwrap_err();
    let took = began.elapsed();
    drop((flood, other));
    assert!(took < Duration::from_millis(4500), "took {took:?}: {error}");
    let blamed = if all_come { "rank 1 " } else { "rank 2" };
    assert!(error.message.contains(blamed), "{error}");
}

/// Starts ranks 0 and 2 of a job of three, and plays rank 1; returns its links.
fn with_two_ranks<R: Send + 'static>(
    rank_main: impl Fn(TcpBackend) -> R + Send + Clone + 'static,
) -> ([TcpStream; 2], [JoinHandle<R>; 2]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut listener = Some(listener);
    let ranks = [0, 2].map(|rank| {
        let (listener, rank_main) = (listener.take(), rank_main.clone());
        let mut config = config(rank, 3, port);
        (config.ring, config.timeout) = (false, Some(Duration::from_secs(2)));
        thread::spawn(move || {
            let comm = match listener {
                Some(listener) => TcpBackend::connect_with_listener(config, listener),
                None => TcpBackend::connect(config),
            };
            rank_main(comm.unwrap())
        })
    });
    let [mut data, watch] = vanished(1, 3, port);
    await_frame(&mut data, FrameKind::Seat);
    data.write_all(&frame(FrameKind::Ring, 0, &[])).unwrap();
    await_frame(&mut data, FrameKind::Start);
    ([data, watch], ranks)
}

/// The watch reads the question of this rank again and again; the others are read all the same.
#[test]
fn a_worker_that_asks_without_end_and_reads_nothing_keeps_nobody_beyond_the_timeout() {
    let _turn = listen();
    let ([_data, watch], ranks) = with_two_ranks(|comm| {
        let began = Instant::now();
        (comm.barrier().unwrap_err(), began.elapsed(), comm)
    });
    let flood = Flood::of(&Notice::Ping.encode(), watch);
    for rank in ranks {
        let (error, took, comm) = rank.join().unwrap();
        let CommError::CollectiveFailed { kind, rank, .. } = error else {
            panic!("{error}");
        };
        assert_eq!((kind, rank), (FailureKind::TimedOut, Some(1)), "{error}");
        assert!(took < Duration::from_secs(5), "took {took:?}");
        // No drop waits for another rank.
        let began = Instant::now();
        drop(comm);
        assert!(began.elapsed() < Duration::from_secs(1));
    }
    drop(flood);
}

/// Reports of a worker about a finished call are read as long as they arrive, except repeated ones.
#[test]
fn a_worker_that_enters_one_call_without_end_keeps_nobody_beyond_the_timeout() {
    let _turn = listen();
    let ([mut data, watch], ranks) = with_two_ranks(|comm| {
        comm.barrier().unwrap();
        let began = Instant::now();
        (comm.barrier().unwrap_err(), began.elapsed())
    });
    let entry = Header::new(FrameKind::Enter, 0, Call::barrier(), 0).encode();
    data.write_all(&entry).unwrap();
    await_frame(&mut data, FrameKind::Answer);
    let flood = Flood::of(&entry, data);
    for rank in ranks {
        let (error, took) = rank.join().unwrap();
        assert!(error.to_string().contains("rank 1"), "{error}");
        assert!(took < Duration::from_secs(5), "took {took:?}");
    }
    drop((flood, watch));
}

/// Rank 0 is awaited for as long as the timeout allows, however many questions it sends meanwhile.
#[test]
fn a_rank_0_that_asks_without_end_keeps_nobody_beyond_the_timeout() {
    let _turn = listen();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut config = config(1, 3, listener.local_addr().unwrap().port());
    config.timeout = Some(Duration::from_secs(1));
    let worker = thread::spawn(move || {
        let comm = TcpBackend::connect(config).unwrap();
        let began = Instant::now();
        (comm.barrier().unwrap_err(), began.elapsed())
    });
    let [mut data, watch] = admit(&listener);
    data.write_all(&seat(false, 0)).unwrap();
    await_frame(&mut data, FrameKind::Ring);
    let start = Start {
        ring: false,
        crowded: false,
    };
    data.write_all(&frame(FrameKind::Start, 0, &start.encode()))
        .unwrap();
    let flood = Flood::of(&Notice::Ping.encode(), watch);
    let (error, took) = worker.join().unwrap();
    drop(flood);
    let CommError::CollectiveFailed { kind, rank, .. } = error else {
        panic!("{error}");
    };
    assert_eq!((kind, rank), (FailureKind::TimedOut, Some(0)), "{error}");
    assert!(took < Duration::from_secs(4), "took {took:?}");
}
