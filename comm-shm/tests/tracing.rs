//! What a job logs through `tracing`: ranks that attach and leave, ranks that are waited for, and failures.

mod common;

use std::thread;
use std::time::Duration;

use comm_api::Communicator;
use comm_conformance::events::{assert_heard, hears, lines, listen};
use comm_shm::{ShmBackend, ShmConfig};

/// Runs `rank_main` on every rank of a world, each a thread.
fn world(size: usize, timeout: Option<Duration>, rank_main: fn(ShmBackend)) {
    let name = common::fresh_name();
    thread::scope(|scope| {
        for rank in 0..size {
            let mut config = ShmConfig::new(name.clone(), rank, size);
            config.timeout = timeout;
            scope.spawn(move || rank_main(ShmBackend::attach(config).expect("all ranks come")));
        }
    });
}

/// The longest wait that is not a failure here.
const LONGEST_WAIT: Option<Duration> = Some(Duration::from_secs(40));

#[test]
fn ranks_that_come_and_leave_are_reported_once_each() {
    let _turn = listen();
    world(2, LONGEST_WAIT, |comm| comm.barrier().unwrap());
    for rank in ["rank=0", "rank=1"] {
        assert_heard(1, &["INFO", "attached", rank, "size=2"]);
        assert_heard(1, &["INFO", "detached", rank]);
    }
    assert_heard(0, &["WARN"]);
    assert_heard(0, &["ERROR"]);
}

#[test]
fn a_slow_wait_names_who_is_missing() {
    let _turn = listen();
    world(3, LONGEST_WAIT, |comm| {
        // Rank 2 arrives when both others miss it, and not before.
        let missed = |by| hears(&["WARN", "still waiting", "missing=rank 2", by]);
        let missed = comm.rank() != 2 || missed(" rank=0") && missed(" rank=1");
        comm.barrier().unwrap();
        assert!(missed, "nobody missed rank 2: {:#?}", lines());
    });
    assert_heard(2, &["WARN", "still waiting", "barrier", "seconds=10"]);
}

#[test]
fn a_failure_is_reported_by_every_survivor_with_the_rank_to_blame() {
    let _turn = listen();
    world(3, LONGEST_WAIT, |comm| {
        if comm.rank() == 1 {
            return;
        }
        comm.barrier().unwrap_err();
        // The first cause again, without another report.
        comm.barrier().unwrap_err();
    });
    for rank in [" rank=0", " rank=2"] {
        assert_heard(1, &["ERROR", "collective failed", rank, "rank 1"]);
    }
}
