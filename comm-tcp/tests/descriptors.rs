//! How many descriptors a rank needs: the error, the check and the actual number agree.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::{Duration, Instant};

use comm_api::{Communicator, ReduceOp};
use comm_tcp::{InitError, TcpBackend, TcpConfig};
use common::WATCHDOG;
use common::ranks::{config, role, say, start_with};
use rstest::rstest;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Returns which descriptors are open.
fn open() -> Vec<u64> {
    let folder = "/proc/self/fd";
    let entries = std::fs::read_dir(folder).unwrap().flatten();
    let number = |entry: std::fs::DirEntry| {
        // Except the one of the folder.
        let target = std::fs::read_link(entry.path()).ok()?;
        let name = entry.file_name().into_string().unwrap();
        (!target.ends_with("fd")).then(|| name.parse().unwrap())
    };
    entries.filter_map(number).collect()
}

/// Returns how many descriptors a limit leaves; some may be open beyond it.
fn left(limit: u64) -> usize {
    let open = open();
    (0..limit).filter(|number| !open.contains(number)).count()
}

/// Permits this process to open `free` more descriptors.
fn leave(free: usize) {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    let current = (0..1000).find(|&limit| left(limit) == free);
    setrlimit(Resource::Nofile, Rlimit { current, ..limit }).unwrap();
}

/// Tries to join without a free descriptor; returns how many are needed.
fn needed(config: &TcpConfig) -> usize {
    leave(0);
    let error = TcpBackend::connect(config.clone()).map(drop).unwrap_err();
    number(&error, " needs ")
}

fn number(error: &InitError, before: &str) -> usize {
    let (_, rest) = error
        .message
        .split_once(before)
        .unwrap_or_else(|| panic!("{error}"));
    rest.split(' ').next().unwrap().parse().unwrap()
}

/// The main function of a rank; run by the other tests as a separate program.
#[test]
fn one_rank() {
    let Some(role) = role(WATCHDOG) else {
        return;
    };
    let mut config = config();
    config.ring = role.contains("along the ring");
    let needed = needed(&config);
    say("needs", needed);
    if role.contains("one less") {
        leave(needed - 1);
        let began = Instant::now();
        let error = TcpBackend::connect(config).map(drop).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(5), "{error}");
        assert_eq!(number(&error, " needs "), needed);
        assert_eq!(number(&error, " may open "), needed - 1);
        assert!(error.message.contains("ulimit -n"), "{error}");
        return say("end", "refused");
    }
    leave(needed);
    let comm = TcpBackend::connect(config).unwrap();
    // All descriptors are open now, except those for looking something up in a file.
    let limit = getrlimit(Resource::Nofile).current.unwrap();
    say("free", left(limit));
    calls(&comm);
    say("end", "ok");
}

/// Makes every kind of call, small and large.
fn calls(comm: &TcpBackend) {
    let (rank, size) = (comm.rank(), comm.size());
    for count in [1, 300_000] {
        comm.barrier().unwrap();
        let mine = vec![rank as u64; count];
        let mut sum = mine.clone();
        comm.allreduce(&mine, &mut sum, ReduceOp::Sum).unwrap();
        let ranks: usize = (0..size).sum();
        assert!(sum.iter().all(|&sum| sum == ranks as u64));
        comm.broadcast(&mut sum, size - 1).unwrap();
        let displs: Vec<usize> = (0..size).map(|rank| rank * count).collect();
        let mut all = vec![0; size * count];
        comm.allgatherv(&mine, &mut all, &vec![count; size], &displs)
            .unwrap();
        assert!((0..size).all(|rank| all[displs[rank]] == rank as u64));
    }
}

#[rstest]
fn a_rank_needs_the_descriptors_that_it_says_and_none_more(
    #[values(2, 3, 4, 8)] size: usize,
    #[values("along the ring", "through rank 0")] way: &str,
    #[values("", "with one less")] less: &str,
) {
    let mut ranks = start_with(&format!("{way} {less}"), size, "20");
    for (rank, process) in ranks.iter_mut().enumerate() {
        let needs: usize = process.wait_for("needs").parse().unwrap();
        // As in the table of the protocol document.
        let expected = match (rank, size, way) {
            (0, 2, _) => 6,
            (0, _, "through rank 0") => 2 * size + 2,
            (0, ..) => 2 * size + 4,
            (1, 2, _) => 4,
            _ => 6,
        };
        assert_eq!(needs, expected, "rank {rank}");
        if less.is_empty() {
            // A worker learns only from rank 0 that there is no ring.
            if rank == 0 || size == 2 || way == "along the ring" {
                let free = process.wait_for("free");
                assert_eq!(free, "1", "on rank {rank}");
            }
            assert_eq!(process.wait_for("end"), "ok", "on rank {rank}");
        } else {
            assert_eq!(process.wait_for("end"), "refused", "on rank {rank}");
        }
    }
}
