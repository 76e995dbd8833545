//! Which rank decides and which ranks are notified while a rank is stopped, cannot write its log or cannot
//! open anything.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::Duration;

use comm_api::{CommError, Communicator};
use comm_conformance::events::Each;
use comm_tcp::TcpBackend;
use common::clock::millis;
use common::ranks::{Rank, config, role, say, start_each, start_with};
use rstest::rstest;
use rustix::process::{Resource, Rlimit, Signal};
use tracing::Event;

const WATCHDOG: Duration = Duration::from_mins(1);

/// The main function of a rank; run by the other tests as a separate program.
#[test]
fn one_rank() {
    let Some(role) = role(WATCHDOG) else {
        return;
    };
    let comm = TcpBackend::connect(config()).unwrap();
    comm.barrier().unwrap();
    match (role.as_str(), comm.rank()) {
        ("blocked log", 0) => tracing::subscriber::set_global_default(Each(blocked)).unwrap(),
        ("blocked log" | "mixed", 2) => {
            say("ready", comm.rank());
            // Killed in this time.
            std::thread::sleep(Duration::from_secs(30));
        }
        ("reset", 1 | 2) => {
            common::reset::on_close();
            say("ready", comm.rank());
            // Computes, and is killed in this time.
            std::thread::sleep(Duration::from_secs(30));
        }
        ("paused before", 0) | ("paused inside", 1) => {
            say("ready", comm.rank());
            // Rank 0 is stopped in this time.
            std::thread::sleep(Duration::from_millis(300));
        }
        ("out of descriptors", 1) => {
            let limit = rustix::process::getrlimit(Resource::Nofile);
            let none = Rlimit {
                current: Some(0),
                ..limit
            };
            rustix::process::setrlimit(Resource::Nofile, none).unwrap();
            comm.abort(7);
        }
        _ => {}
    }
    say("ready", comm.rank());
    match (role.as_str(), comm.barrier()) {
        ("mixed", Err(error)) => say("end", error),
        ("reset", Err(error)) => {
            let told = millis();
            say("end", describe(Err(error)));
            say("told", told);
        }
        (_, result) => say("end", describe(result)),
    }
    // No rank leaves before the others have seen what they must see.
    std::thread::sleep(Duration::from_millis(300));
}

fn describe(result: Result<(), CommError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(CommError::CollectiveFailed { kind, rank, .. }) => {
            let rank = rank.map_or("none".to_owned(), |rank| rank.to_string());
            format!("{kind:?} {rank}")
        }
        Err(other) => other.to_string(),
    }
}

/// Writes to a log whose reader has stopped, which blocks.
fn blocked(_: &Event<'_>) {
    say("blocked", std::process::id());
    loop {
        std::thread::park();
    }
}

fn ready(role: &str, size: usize, seconds: &str) -> Vec<Rank> {
    let mut ranks = start_with(role, size, seconds);
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    ranks
}

/// Rank 0 cannot write its log, from the failure on or from an earlier warning on. The others get the error
/// about a death all the same, and no error that rank 0 is late.
#[rstest]
fn a_death_is_told_although_the_log_of_rank_0_blocks(#[values(false, true)] warned: bool) {
    let mut ranks = ready("blocked log", 3, "20");
    if warned {
        ranks[0].wait_for("blocked");
    }
    ranks[2].signal(Signal::KILL);
    assert_eq!(ranks[1].wait_for("end"), "PeerLost 2");
}

/// Links that the system resets when it closes them are the end of a rank, like others.
#[rstest]
fn a_death_that_resets_links_is_told_at_once(#[values(3, 4)] size: usize) {
    // On a busy machine one of several attempts suffices.
    let mut fastest = u128::MAX;
    for _ in 0..5 {
        let mut ranks = ready("reset", size, "20");
        ranks[2].kill();
        let gone = millis();
        assert_eq!(ranks[0].wait_for("end"), "PeerLost 2");
        let told: u128 = ranks[0].wait_for("told").parse().unwrap();
        fastest = fastest.min(told.saturating_sub(gone));
        if fastest <= 100 {
            return;
        }
    }
    panic!("told after {fastest} ms");
}

/// Rank 0 was stopped for longer than the timeout and resumes with the entries of all ranks received. It
/// learns that the others have timed out, and its call fails like theirs.
#[rstest]
#[case(2, "paused before")]
#[case(3, "paused before")]
#[case(3, "paused inside")]
#[case(5, "paused inside")]
fn rank_0_that_was_stopped_fails_as_those_who_gave_up_on_it(
    #[case] size: usize,
    #[case] role: &str,
) {
    let mut ranks = ready(role, size, "1.5");
    ranks[0].signal(Signal::STOP);
    for rank in &mut ranks[1..] {
        assert_eq!(rank.wait_for("end"), "TimedOut 0");
    }
    ranks[0].signal(Signal::CONT);
    assert_eq!(ranks[0].wait_for("end"), "TimedOut 0");
}

/// Rank 1 is the one that waited for too long: all ranks report its timeout, whatever their own is.
#[test]
fn the_timeout_that_was_over_is_the_one_that_is_named() {
    let seconds = |rank| if rank == 1 { "1.25" } else { "20" }.to_owned();
    let mut ranks = start_each("mixed", 3, seconds);
    for rank in &mut ranks[..2] {
        let error = rank.wait_for("end");
        assert!(error.contains("within 1.25s"), "{error}");
    }
}

/// A program that has run out of descriptors may abort for that reason.
#[test]
fn an_abort_without_a_descriptor_left_is_told() {
    let mut ranks = start_with("out of descriptors", 3, "20");
    for rank in [0, 2] {
        assert_eq!(ranks[rank].wait_for("end"), "Aborted 1");
    }
}
