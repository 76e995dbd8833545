//! An attacker in the middle: all ranks notice whatever the attacker changes, or the attacker cannot get
//! between them.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

#[path = "../common/mod.rs"]
mod common;
mod relay;
mod slow;

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Barrier, mpsc};
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, CommunicatorExt, FailureKind, ReduceOp};
use comm_tcp::{TcpBackend, TcpConfig};
use comm_testing::not_run;
use common::{WATCHDOG, listener};
use relay::{DATA, Deed, Plan, RING, WATCH, pass_on, relay};
use rstest::rstest;
use slow::slow;

/// The configuration of a rank, as variables set it.
fn config(rank: usize, size: usize, port: u16, more: &[(&str, &str)]) -> TcpConfig {
    let numbers = [
        ("COBRE_TCP_PORT", usize::from(port)),
        ("COBRE_TCP_RANK", rank),
        ("COBRE_TCP_SIZE", size),
    ];
    let mut map: BTreeMap<String, String> = BTreeMap::new();
    map.extend(numbers.map(|(name, number)| (name.to_owned(), number.to_string())));
    let texts = [
        ("COBRE_TCP_COORDINATOR", "127.0.0.1"),
        (
            "COBRE_TCP_SECRET",
            "known to the ranks, and to nobody between them",
        ),
        ("COBRE_TCP_TIMEOUT_SECS", "3"),
    ];
    let texts = texts.iter().chain(more);
    map.extend(texts.map(|&(name, text)| (name.to_owned(), text.to_owned())));
    TcpConfig::from_map(&map).unwrap()
}

/// Starts ranks with something between them that listens and knows the port of rank 0; `configure` gets a
/// rank, that port, and the port to go through. Returns the results of the ranks.
fn with_something_between<R: Send + 'static>(
    size: usize,
    start: impl FnOnce(TcpListener, u16),
    configure: impl Fn(usize, u16, u16) -> TcpConfig,
    rank_main: impl Fn(TcpBackend) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let (own, port) = listener();
    let (between, through) = listener();
    start(between, port);
    let mut own = Some(own);
    let (sender, receiver) = mpsc::channel();
    for rank in 0..size {
        let config = configure(rank, port, through);
        let own = own.take();
        let (sender, rank_main) = (sender.clone(), rank_main.clone());
        std::thread::spawn(move || {
            let comm = match own {
                Some(own) => TcpBackend::connect_with_listener(config, own),
                None => TcpBackend::connect(config),
            };
            let _ = sender.send((rank, rank_main(comm.unwrap())));
        });
    }
    drop(sender);
    let mut results: Vec<(usize, R)> = Vec::new();
    while results.len() < size {
        results.push(receiver.recv_timeout(WATCHDOG).unwrap());
    }
    results.sort_by_key(|&(rank, _)| rank);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Starts ranks that reach rank 0 through a relay; returns their results.
fn through_a_relay<R: Send + 'static>(
    size: usize,
    plan: &Arc<Plan>,
    (ring, timeout): (bool, Duration),
    rank_main: impl Fn(TcpBackend) -> R + Send + Sync + Clone + 'static,
) -> Vec<R> {
    let configure = |rank, port, through| {
        let port = if rank == 0 { port } else { through };
        let mut config = config(rank, size, port, &[("COBRE_TCP_ENCRYPT", "1")]);
        (config.ring, config.timeout) = (ring, Some(timeout));
        config
    };
    let start = |between, port| relay(between, port, plan);
    with_something_between(size, start, configure, rank_main)
}

/// Splits the error of a call into its parts.
fn failure(error: CommError) -> (FailureKind, Option<usize>, String) {
    match error {
        CommError::CollectiveFailed {
            kind,
            rank,
            message,
            ..
        } => (kind, rank, message),
        other => panic!("{other}"),
    }
}

/// What the ranks do while the relay tampers with their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Work {
    Small,
    Gather,
    Reduce,
    /// Rank 0 is late, so that the others report that they wait.
    Wait,
    /// So late that the others ask whether it is there.
    Ask,
}

/// Makes calls until one fails, and checks every result.
fn work(comm: &TcpBackend, work: Work) -> Result<(), CommError> {
    const LARGE: usize = 5 << 20;
    let (rank, size) = (comm.rank(), comm.size());
    for _ in 0..200 {
        match work {
            Work::Small => {
                let sum = comm.allreduce_scalar(1_u64 << rank, ReduceOp::Sum)?;
                assert_eq!(sum, (1 << size) - 1, "a wrong result");
            }
            Work::Gather => {
                let each = LARGE / size;
                let counts = vec![each; size];
                let displs: Vec<usize> = (0..size).map(|rank| rank * each).collect();
                let send = vec![u8::try_from(rank).unwrap(); each];
                let mut recv = vec![9; each * size];
                comm.allgatherv(&send, &mut recv, &counts, &displs)?;
                let right = |(at, &byte): (usize, &u8)| usize::from(byte) == at / each;
                assert!(recv.iter().enumerate().all(right), "a wrong result");
            }
            Work::Reduce => {
                let send = vec![1_u64 << rank; LARGE / 8];
                let mut recv = vec![0; LARGE / 8];
                comm.allreduce(&send, &mut recv, ReduceOp::Sum)?;
                assert!(
                    recv.iter().all(|&sum| sum == (1 << size) - 1),
                    "a wrong result"
                );
            }
            Work::Wait | Work::Ask => {
                let late = if work == Work::Wait { 60 } else { 7500 };
                if rank == 0 {
                    std::thread::sleep(Duration::from_millis(late));
                }
                comm.barrier()?;
            }
        }
    }
    Ok(())
}

/// Tampers with a running job and checks that every rank fails, with the name of the link.
fn harm(size: usize, plan: &Arc<Plan>, ring: bool, what: Work, name: &str) {
    let ready = Arc::new(Barrier::new(size));
    // They ask a second before the timeout; elsewhere a busy machine must not end the call.
    let timeout = Duration::from_secs(if what == Work::Ask { 8 } else { 30 });
    let (mine, started) = (Arc::clone(plan), Instant::now());
    let errors = through_a_relay(size, plan, (ring, timeout), move |comm| {
        comm.barrier().unwrap();
        if ready.wait().is_leader() {
            mine.armed.store(true, Ordering::Release);
        }
        let first = work(&comm, what);
        // A second call returns the same error: it is permanent.
        let again = comm.barrier();
        ready.wait();
        (first, again)
    });
    for (rank, (first, again)) in errors.into_iter().enumerate() {
        let (first, again) = (first.unwrap_err(), again.unwrap_err());
        let (kind, _, message) = failure(first);
        assert_eq!(kind, FailureKind::Io, "on rank {rank}: {message}");
        assert!(message.contains(&format!("the {name} link")), "{message}");
        assert!(
            again.is_fatal() && again.to_string().contains(&message),
            "{again}"
        );
    }
    assert!(started.elapsed() < WATCHDOG);
}

#[rstest]
fn a_bit_that_flips_in_a_small_call_is_noticed_by_all(
    #[values(2, 3)] size: usize,
    #[values(true, false)] upward: bool,
    #[values(0, 3, 30, 75)] at: usize,
) {
    let plan = Plan::new(DATA, upward, Deed::Flip(at));
    harm(size, &plan, true, Work::Small, "data");
}

#[rstest]
fn a_bit_that_flips_in_bulk_is_noticed_by_all(
    #[values(true, false)] upward: bool,
    #[values(Work::Gather, Work::Reduce)] what: Work,
    #[values(0, 1, 40_000)] at: usize,
) {
    let plan = Plan::new(DATA, upward, Deed::Flip(at));
    harm(2, &plan, true, what, "data");
}

#[rstest]
#[case::gather(Work::Gather)]
#[case::reduce(Work::Reduce)]
fn a_bit_that_flips_in_bulk_through_rank_0_is_noticed_by_all(
    #[case] what: Work,
    #[values(true, false)] upward: bool,
) {
    let plan = Plan::new(DATA, upward, Deed::Flip(20_000));
    harm(3, &plan, false, what, "data");
}

/// The last rank reaches rank 0 through the relay, on the ring, too. A reduction goes along a chain without
/// such a link.
#[rstest]
fn a_bit_that_flips_on_the_ring_is_noticed_by_all(#[values(0, 50, 40_000)] at: usize) {
    let plan = Plan::new(RING, true, Deed::Flip(at));
    harm(3, &plan, true, Work::Gather, "ring");
}

#[rstest]
#[case::upward(true, Work::Wait)]
#[case::downward(false, Work::Ask)]
fn a_bit_that_flips_on_a_watch_link_is_noticed_by_all(
    #[case] upward: bool,
    #[case] what: Work,
    #[values(0, 1, 20)] at: usize,
) {
    let plan = Plan::new(WATCH, upward, Deed::Flip(at));
    harm(2, &plan, true, what, "watch");
}

#[rstest]
#[case::small(Work::Small)]
#[case::bulk(Work::Gather)]
fn records_that_are_repeated_moved_or_exchanged_are_noticed_by_all(
    #[case] what: Work,
    #[values(true, false)] upward: bool,
    #[values(Deed::Repeat, Deed::Reflect)] deed: Deed,
) {
    let plan = Plan::new(DATA, upward, deed);
    harm(2, &plan, true, what, "data");
}

/// A rank waits for bytes that are held back in a small call, as on a slow network; in bulk more bytes
/// follow.
#[rstest]
fn records_that_are_left_out_or_swapped_are_noticed_by_all(
    #[values(true, false)] upward: bool,
    #[values(Deed::LeaveOut, Deed::Swap)] deed: Deed,
) {
    let plan = Plan::new(DATA, upward, deed);
    harm(2, &plan, true, Work::Gather, "data");
}

/// A record of the data link appears on the ring, and the other way round.
#[rstest]
#[case::on_the_ring(RING, "ring")]
#[case::on_a_data_link(DATA, "data")]
fn a_record_of_another_link_is_noticed_by_all(#[case] link: u8, #[case] name: &str) {
    let plan = Plan::new(link, true, Deed::Splice);
    harm(3, &plan, true, Work::Gather, name);
}

/// A process that listens on the other loopback address is never contacted.
#[test]
fn localhost_is_one_address_and_nobody_stands_in_for_rank_0_at_the_other() {
    let (own, port) = listener();
    let Ok(other) = TcpListener::bind(("::1", port)) else {
        not_run("there is no IPv6 loopback, or its port is taken");
        return;
    };
    other.set_nonblocking(true).unwrap();
    let with = move |rank| config(rank, 2, port, &[("COBRE_TCP_COORDINATOR", "localhost")]);
    let zero = std::thread::spawn(move || {
        let comm = TcpBackend::connect_with_listener(with(0), own).unwrap();
        comm.barrier().unwrap();
    });
    let one = TcpBackend::connect(with(1)).unwrap();
    one.barrier().unwrap();
    zero.join().unwrap();
    let asked = other.accept().unwrap_err().kind();
    assert_eq!(asked, ErrorKind::WouldBlock, "a stranger was asked");
}

/// A relay waits for a worker before rank 0 is there, then forwards the bytes of both. Loopback links are not
/// encrypted, so that must not work.
#[test]
fn whoever_catches_a_worker_early_does_not_get_between_it_and_rank_0() {
    let (trap, port) = listener();
    let plan = Plan::new(DATA, true, Deed::Flip(0));
    let one = std::thread::spawn(move || {
        let comm = TcpBackend::connect(config(1, 2, port, &[])).unwrap();
        comm.barrier().unwrap();
    });
    let (caught, _) = trap.accept().unwrap();
    drop(trap);
    let own = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let zero = std::thread::spawn(move || {
        let comm = TcpBackend::connect_with_listener(config(0, 2, port, &[]), own).unwrap();
        comm.barrier().unwrap();
    });
    let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
    pass_on(caught, server, &plan);
    zero.join().unwrap();
    one.join().unwrap();
    assert_eq!(
        plan.passed.load(Ordering::Acquire),
        0,
        "a stranger is between"
    );
}

/// If ranks get different information, none of them is left with half of what it expects.
#[rstest]
#[case("1", "0")]
#[case("0", "1")]
#[case("auto", "1")]
#[case("auto", "0")]
fn ranks_that_encrypt_differently_do_not_meet(#[case] zero: &str, #[case] one: &'static str) {
    let (own, port) = listener();
    let mut zero = config(0, 2, port, &[("COBRE_TCP_ENCRYPT", zero)]);
    zero.connect_timeout = Duration::from_millis(700);
    let zero = std::thread::spawn(move || TcpBackend::connect_with_listener(zero, own).map(drop));
    let one = config(1, 2, port, &[("COBRE_TCP_ENCRYPT", one)]);
    common::names(&common::refused(one), "COBRE_TCP_ENCRYPT");
    zero.join().unwrap().unwrap_err();
}

/// Starts ranks without a ring, the last of which reaches rank 0 over a slow link that lets `most` bytes pass
/// in each direction. Returns the results of the ranks, and how long that took.
fn over_a_slow_link<R: Send + 'static>(
    size: usize,
    encrypt: &'static str,
    most: (usize, usize),
    rank_main: impl Fn(TcpBackend) -> R + Send + Sync + Clone + 'static,
) -> Vec<(R, Duration)> {
    let configure = |rank, port, through| {
        let port = if rank == size - 1 { through } else { port };
        let mut config = config(rank, size, port, &[("COBRE_TCP_ENCRYPT", encrypt)]);
        (config.ring, config.timeout) = (false, Some(Duration::from_secs(1)));
        config
    };
    let start = |between, port| slow(between, port, most);
    with_something_between(size, start, configure, move |comm| {
        let began = Instant::now();
        (rank_main(comm), began.elapsed())
    })
}

const ALL: (usize, usize) = (usize::MAX, usize::MAX);

/// A call takes longer than the timeout because its link is slow. Its bytes move all the time, even when
/// encrypted, where no byte is usable before the last byte of its record has arrived.
#[rstest]
fn a_call_on_a_slow_link_takes_the_time_it_needs(
    #[values(2, 3)] size: usize,
    #[values("0", "1")] encrypt: &'static str,
    #[values(true, false)] upward: bool,
) {
    const BYTES: usize = 40_000;
    let results = over_a_slow_link(size, encrypt, ALL, move |comm| {
        let root = if upward { size - 1 } else { 0 };
        let mut buffer = vec![u8::from(comm.rank() == root); BYTES];
        let result = comm.broadcast(&mut buffer, root);
        // All ranks know that the call is complete before one of them leaves.
        let result = result.and_then(|()| comm.barrier());
        (result, buffer.iter().all(|&byte| byte == 1))
    });
    for (rank, ((result, right), took)) in results.into_iter().enumerate() {
        assert_eq!(result, Ok(()), "on rank {rank}");
        assert!(right, "a wrong result on rank {rank}");
        assert!(took > Duration::from_secs(3), "only {took:?}: not slow");
    }
}

/// All ranks have entered and wait for the answer, but the contribution of the last one is stuck on its way.
/// Only rank 0 knows that, and reports it before one of the others times out on rank 0.
#[rstest]
fn a_contribution_that_stops_half_way_is_blamed_on_its_rank(
    #[values(3, 12)] size: usize,
    #[values("0", "1")] encrypt: &'static str,
    #[values(10_000, 40_000)] bytes: usize,
) {
    let results = over_a_slow_link(size, encrypt, (5_000, usize::MAX), move |comm| {
        let (send, mut recv) = (vec![1_u8; bytes], vec![0; bytes]);
        comm.allreduce(&send, &mut recv, ReduceOp::Max)
    });
    for (result, took) in results {
        let error = result.expect_err("bytes that did not come");
        let (kind, rank, message) = failure(error);
        assert_eq!((kind, rank), (FailureKind::TimedOut, Some(size - 1)));
        assert!(
            message.contains("transferred no data within 1s"),
            "{message}"
        );
        assert!(took < Duration::from_secs(3), "after {took:?}");
    }
}

/// The same, but no byte of an entry arrives, because nothing passes any longer; or of an answer, whose rank
/// the others then await in the next call.
#[rstest]
fn an_entry_or_an_answer_that_is_lost_is_told_with_its_rank(
    #[values(3, 12)] size: usize,
    #[values("0", "1")] encrypt: &'static str,
    #[values(true, false)] upward: bool,
) {
    let most = if upward {
        (2_000, usize::MAX)
    } else {
        (usize::MAX, 2_000)
    };
    let results = over_a_slow_link(size, encrypt, most, |comm| {
        loop {
            if let Err(error) = comm.barrier() {
                return error;
            }
        }
    });
    let last = size - 1;
    for (error, _) in results {
        let (kind, rank, message) = failure(error);
        let blamed = (!upward).then_some(last);
        assert_eq!((kind, rank), (FailureKind::TimedOut, blamed), "{message}");
        if upward {
            assert!(message.contains("between rank 0 (127.0.0.1) "), "{message}");
        }
        assert!(message.contains(&format!("rank {last} ")), "{message}");
    }
}
