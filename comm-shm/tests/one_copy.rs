//! Large payloads that ranks read directly from each other's memory. The results are correct whether the
//! ranks may do that or not, and whether ranks leave early or die.
#![cfg(all(target_os = "linux", not(comm_portable_wait)))]
#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]
#![allow(unsafe_code, reason = "forks, and memory that nobody else may read")]

mod common;
#[path = "one_copy/unreadable.rs"]
mod unreadable;

use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use comm_api::bytemuck::{cast_slice, cast_slice_mut};
use comm_api::{CommError, Communicator, FailureKind, ReduceOp, ScalarKind};
use comm_conformance::events::{assert_heard, listen};
use comm_shm::{OneCopy, ShmBackend, ShmConfig};
use common::{Outcome, blame, fresh_name, job, kill_self, launch, role, say};
use rstest::rstest;

/// Below, at and above the sizes between which ranks read each other's memory.
const LENGTHS: [usize; 11] = [
    4095, 32_767, 32_768, 100_000, 262_143, 262_144, 600_001, 4_100_000, 8_388_607, 9_000_001,
    17_000_003,
];

fn byte(rank: usize, round: usize) -> u8 {
    u8::try_from((rank * 37 + round * 11) % 251).unwrap()
}

/// Gathers `len` bytes of each rank, one more of each next rank, and checks all of them.
fn gather(comm: &ShmBackend, send: &[u8], round: usize) -> Result<(), CommError> {
    let size = comm.size();
    let counts: Vec<usize> = (0..size)
        .map(|rank| send.len() - comm.rank() + rank)
        .collect();
    let displs: Vec<usize> = (0..size)
        .map(|rank| counts[..rank].iter().sum::<usize>() + rank)
        .collect();
    let mut all = vec![0; counts.iter().sum::<usize>() + size];
    comm.allgatherv(send, &mut all, &counts, &displs)?;
    for rank in 0..size {
        let block = &all[displs[rank]..][..counts[rank]];
        assert!(
            block == vec![byte(rank, round); counts[rank]],
            "block of rank {rank}"
        );
        assert_eq!(
            all[displs[rank] + counts[rank]],
            0,
            "the gap after rank {rank}"
        );
    }
    Ok(())
}

/// Returns what a rank contributes to an allreduce of `len` bytes: 509 different numbers, repeated.
fn numbers(rank: usize, len: usize, round: usize) -> Vec<u64> {
    let number = |at: usize| ((rank + 1) * 1_000_003 + at * 7 + round) as u64;
    repeated(&(0..509).map(number).collect::<Vec<_>>(), len)
}

/// Returns the sums of what the ranks contribute.
fn sums(size: usize, len: usize, round: usize) -> Vec<u64> {
    let inputs: Vec<_> = (0..size).map(|rank| numbers(rank, 4072, round)).collect();
    let sum = |at: usize| inputs.iter().map(|input| input[at]).sum();
    repeated(&(0..509).map(sum).collect::<Vec<_>>(), len)
}

fn repeated(pattern: &[u64], len: usize) -> Vec<u64> {
    let mut all = pattern.repeat(len / 8 / pattern.len() + 1);
    all.truncate(len / 8);
    all
}

/// Adds up numbers of `len` bytes and checks all sums; some ranks in place, others not.
fn reduce(comm: &ShmBackend, len: usize, round: usize) -> Result<(), CommError> {
    let send = numbers(comm.rank(), len, round);
    let mut recv = send.clone();
    if (comm.rank() + round).is_multiple_of(3) {
        comm.allreduce_in_place(&mut recv, ReduceOp::Sum)?;
    } else {
        comm.allreduce(&send, &mut recv, ReduceOp::Sum)?;
        let before = numbers(comm.rank(), len, round);
        assert!(send == before, "what was sent changed");
    }
    assert!(recv == sums(comm.size(), len, round), "the sums");
    Ok(())
}

/// Gathers, broadcasts and adds up `len` bytes, and checks the results.
fn exchange(comm: &ShmBackend, len: usize, round: usize) -> Result<(), CommError> {
    let rank = comm.rank();
    gather(comm, &vec![byte(rank, round); len + rank], round)?;
    let root = round % comm.size();
    let mut buf = vec![byte(rank, round); len];
    comm.broadcast(&mut buf, root)?;
    assert!(buf == vec![byte(root, round); len], "what rank {root} told");
    let mut sum = vec![0; 2];
    comm.allreduce(&[1, rank], &mut sum, ReduceOp::Sum)?;
    assert_eq!(sum[0], comm.size());
    reduce(comm, len, round)
}

fn all_done(outcomes: &[Outcome]) {
    for Outcome {
        rank,
        status,
        said,
        output,
    } in outcomes
    {
        let done = status.success() && said.last().is_some_and(|said| said == "done");
        assert!(done, "rank {rank}: {status}\n{output}");
    }
}

/// Runs `body` on every rank, with a setting of `COBRE_SHM_ONE_COPY`.
fn ranks(test: &str, size: usize, setting: &str, body: impl FnOnce(ShmConfig)) {
    if let Some(config) = role(test) {
        let _turn = listen();
        body(config);
        return say("done");
    }
    all_done(&launch(test, size, &[("COBRE_SHM_ONE_COPY", setting)]));
}

fn this_test() -> String {
    thread::current().name().unwrap().to_owned()
}

#[rstest]
fn every_length(#[values("auto", "1", "0")] setting: &str, #[values(1, 2, 3)] size: usize) {
    try_every_length(setting, size);
}

/// More than three ranks do not even try.
#[test]
fn every_length_between_five() {
    try_every_length("1", 5);
}

fn try_every_length(setting: &str, size: usize) {
    ranks(&this_test(), size, setting, |config| {
        let comm = ShmBackend::attach(config).unwrap();
        for (round, len) in LENGTHS.into_iter().enumerate() {
            exchange(&comm, len, round).unwrap();
        }
        if size == 2 {
            // On each route: one of four calls takes the other one.
            for (round, len) in LENGTHS.into_iter().enumerate() {
                for more in 1..4 {
                    exchange(&comm, len, round + more).unwrap();
                }
            }
        }
        let used = if setting == "0" || size > 3 {
            "one_copy=false"
        } else {
            "one_copy=true"
        };
        assert_heard(1, &["INFO", "attached", used]);
        assert_heard(0, &["copied twice"]);
    });
}

/// Two ranks try both routes and take the faster one, each by itself: also around calls that one rank
/// refuses, and when one rank is slow.
#[test]
fn two_ranks_choose_alike() {
    ranks(&this_test(), 2, "auto", |config| {
        let comm = ShmBackend::attach(config).unwrap();
        let rank = comm.rank();
        for round in 0..1200 {
            let len = [200_000, 500_000, 260_000, 1_500_000][round % 4] / (1 + round / 400);
            let send = vec![byte(rank, round); len + rank];
            match (round % 61, rank) {
                // Refused by one rank.
                (7, 1) => assert!(comm.allgatherv(&send, &mut [], &[1, 2], &[0, 1]).is_err()),
                (7, _) => assert!(gather(&comm, &send, round).is_err()),
                (40, 0) => thread::sleep(Duration::from_millis(3)),
                _ => {}
            }
            gather(&comm, &send, round).unwrap();
            if round % 3 == 0 {
                reduce(&comm, len, round).unwrap();
            }
        }
        // In parts, on each route.
        for round in 0..20 {
            exchange(
                &comm,
                8_388_607 + round % 3 + 9_000_000 * (round % 2),
                round,
            )
            .unwrap();
        }
        assert_heard(0, &["copied twice"]);
    });
}

/// A single rank that must not read is enough: all ranks take the same route.
#[test]
fn ranks_that_are_told_different_things_agree() {
    ranks(&this_test(), 3, "auto", |mut config| {
        if config.rank == 1 {
            config.one_copy = OneCopy::Off;
        }
        let comm = ShmBackend::attach(config).unwrap();
        assert_heard(1, &["attached", "one_copy=false"]);
        exchange(&comm, 100_000, 1).unwrap();
    });
}

/// A child has a copy of the buffers of its parent; the parent's are the ones that are read.
#[test]
fn a_rank_that_forked() {
    job("a_rank_that_forked", &[2], |comm| {
        let mut send = vec![byte(comm.rank(), 0); 2_000_000 + comm.rank()];
        gather(&comm, &send, 0).unwrap();
        // SAFETY: the child waits for the signal that ends it.
        let child = unsafe { libc::fork() };
        if child == 0 {
            loop {
                // SAFETY: sleeps until a signal comes.
                unsafe { libc::pause() };
            }
        }
        for round in 1..5 {
            send.fill(byte(comm.rank(), round));
            gather(&comm, &send, round).unwrap();
        }
        // SAFETY: our own child.
        unsafe { libc::kill(child, libc::SIGKILL) };
        // SAFETY: our own child, whose status is not asked for.
        let reaped = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        assert_eq!(reaped, child);
    });
}

/// Runs `body` on every rank, each a thread of this process.
fn threads(size: usize, body: impl Fn(ShmConfig) + Sync) {
    let name = fresh_name();
    thread::scope(|scope| {
        for rank in 0..size {
            let config = ShmConfig::new(name.clone(), rank, size);
            let body = &body;
            scope.spawn(move || body(config));
        }
    });
}

#[test]
fn ranks_that_are_threads() {
    threads(3, |config| {
        let comm = ShmBackend::attach(config).unwrap();
        for (round, len) in LENGTHS.into_iter().enumerate() {
            exchange(&comm, len, round).unwrap();
        }
    });
}

/// On every route, an allreduce gives the bits of a fold in rank order.
#[rstest]
fn the_bits_of_a_fold_in_rank_order(#[values("auto", "0")] setting: &str) {
    const LEN: usize = 70_000;
    let special = [
        0.0,
        -0.0,
        1.5,
        f64::NAN,
        f64::from_bits(0xfff8_0000_0000_1234),
        f64::INFINITY,
        f64::NEG_INFINITY,
        1e300,
        5e-324,
    ];
    let value = |rank: usize, at: usize| special[if rank == 0 { at } else { at / 9 } % 9];
    ranks(&this_test(), 2, setting, |config| {
        let comm = ShmBackend::attach(config).unwrap();
        let input = |rank: usize| -> Vec<f64> { (0..LEN).map(|at| value(rank, at)).collect() };
        let send = input(comm.rank());
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Min, ReduceOp::Max] {
            let (mut expected, next) = (input(0), input(1));
            let acc = cast_slice_mut(&mut expected);
            op.fold_into(acc, cast_slice(&next), ScalarKind::F64)
                .unwrap();
            let expected: &[u8] = cast_slice(&expected);
            for _ in 0..6 {
                let mut recv = vec![0.0; LEN];
                comm.allreduce(&send, &mut recv, op).unwrap();
                assert!(cast_slice::<_, u8>(&recv) == expected, "{op:?}");
                recv.copy_from_slice(&send);
                comm.allreduce_in_place(&mut recv, op).unwrap();
                assert!(cast_slice::<_, u8>(&recv) == expected, "{op:?} in place");
            }
        }
    });
}

/// Either the calls agree, or no rank reads: even where one of the two lengths is read directly and the other
/// is not.
#[test]
fn a_mismatch_where_the_ways_part() {
    for (short, long) in [(262_143, 262_144), (1000, 300_000), (8_000_000, 8_388_608)] {
        threads(3, |config| {
            let comm = ShmBackend::attach(config).unwrap();
            let mut buf = vec![0_u8; if comm.rank() == 1 { long } else { short }];
            let error = comm.broadcast(&mut buf, 1).unwrap_err();
            assert_eq!(blame(&error), (FailureKind::Mismatch, Some(1)), "{error}");
            assert!(buf.iter().all(|&byte| byte == 0), "nothing was read");
        });
    }
}

/// No rank reads in a call that some rank refuses, and every rank reads in the next one.
#[test]
fn a_refusal_before_a_large_call() {
    threads(3, |config| {
        let comm = ShmBackend::attach(config).unwrap();
        for round in 0..20 {
            let mut buf = vec![0_u8; 2_000_000];
            let root = if comm.rank() == round % 3 { 9 } else { 0 };
            comm.broadcast(&mut buf, root).unwrap_err();
            exchange(&comm, 1_000_000, round).unwrap();
        }
    });
}

/// A root that times out gets its buffer back, and writes it, while another rank reads it: the reader does
/// not treat what it read as a result.
#[test]
fn whoever_gives_up_spoils_no_result() {
    const ROUNDS: u64 = 30;
    const MOST_ROUNDS: u64 = 400;
    const LEN: usize = (8 << 20) - 1;
    let spoilt = AtomicU64::new(0);
    for round in 0..MOST_ROUNDS {
        if round >= ROUNDS && spoilt.load(Ordering::Relaxed) > 0 {
            break;
        }
        threads(2, |mut config| {
            let impatient = config.rank == 0;
            if impatient {
                config.timeout = Some(Duration::from_micros(1100 + 100 * (round % 40)));
            }
            let comm = ShmBackend::attach(config).unwrap();
            let mut buf = vec![if impatient { 7_u8 } else { 0 }; LEN];
            // Both arrive at the same time, or the first one times out here.
            if comm.barrier().is_err() {
                return;
            }
            let told = comm.broadcast(&mut buf, 0);
            match told {
                Ok(()) => assert!(buf == vec![7; LEN], "what was written later counts"),
                Err(error) => {
                    assert_eq!(blame(&error).0, FailureKind::TimedOut, "{error}");
                    if impatient {
                        buf.fill(0xee);
                        std::hint::black_box(&buf);
                    } else if buf.contains(&0xee) {
                        spoilt.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
    }
    if spoilt.into_inner() == 0 {
        comm_testing::not_run(
            "this machine was too busy for a buffer to be written while it was read",
        );
    }
}

/// How many ranks are killed while they or others read. A variable requests more.
fn kills() -> u64 {
    let kills = std::env::var("COMM_SHM_TEST_KILLS");
    kills.map_or(12, |kills| kills.parse().expect("a number"))
}

/// A rank is killed at any moment of a large call: the others get what it sent, completely, or learn that it
/// is lost.
#[test]
fn a_rank_is_killed_in_the_middle_of_a_copy() {
    const SIZE: usize = 2;
    const LENGTHS: [usize; 2] = [4_100_000, 100_000];
    let test = "a_rank_is_killed_in_the_middle_of_a_copy";
    if let Some(config) = role(test) {
        let after: u64 = std::env::var("COMM_SHM_TEST_AFTER")
            .unwrap()
            .parse()
            .unwrap();
        let victim = usize::try_from(after % SIZE as u64).unwrap();
        let len = LENGTHS[usize::from(after % 4 > 1)];
        let comm = ShmBackend::attach(config).unwrap();
        comm.barrier().unwrap();
        if comm.rank() == victim {
            thread::spawn(move || {
                thread::sleep(Duration::from_micros(after));
                kill_self();
            });
        }
        for round in 0.. {
            let began = Instant::now();
            if let Err(error) = exchange(&comm, len, round) {
                assert_eq!(
                    blame(&error),
                    (FailureKind::PeerLost, Some(victim)),
                    "{error}"
                );
                assert!(
                    began.elapsed() < Duration::from_secs(5),
                    "{:?}",
                    began.elapsed()
                );
                return say("done");
            }
        }
    }
    for kill in 0..kills() {
        // The first calls read directly, whichever route is faster: half of the kills come that early.
        let latest = if kill / 2 % 2 == 0 { 60_000 } else { 3_000 };
        let after = (kill * 1709 + 300) % latest;
        let victim = usize::try_from(after % SIZE as u64).unwrap();
        let mut outcomes = launch(test, SIZE, &[("COMM_SHM_TEST_AFTER", &after.to_string())]);
        let dead = outcomes.remove(victim);
        // A wrong result would have ended it, too.
        let killed = dead.status.signal() == Some(libc::SIGKILL);
        assert!(killed && !dead.output.contains("panicked"), "{dead:?}");
        all_done(&outcomes);
    }
}
