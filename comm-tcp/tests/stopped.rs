//! The errors about a death while another rank is stopped: if that is rank 0, there are none until it is
//! resumed.
//!
//! Ranks are processes: this program starts itself again, as the test `one_rank`, with a role.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind};
use comm_tcp::{Encryption, TcpBackend};
use common::clock::millis;
use common::ranks::{Rank, config, role, say, start_with, wait_here};
use rstest::rstest;
use rustix::process::Signal;

const WATCHDOG: Duration = Duration::from_mins(1);

/// The timeout of the ranks, in seconds: long after it the tests would see another cause.
const SECONDS: &str = "20";

/// How soon all ranks get their errors, on a machine that is busy with other work.
const SOON: Duration = Duration::from_secs(8);

/// The main function of a rank; run by the other tests as a separate program.
#[test]
fn one_rank() {
    let Some(role) = role(WATCHDOG) else {
        return;
    };
    let mut config = config();
    let (role, sealed) = role.rsplit_once(' ').unwrap();
    config.encryption = match sealed {
        "sealed" => Encryption::On,
        _ => Encryption::Auto,
    };
    let comm = TcpBackend::connect(config).unwrap();
    comm.barrier().unwrap();
    say("ready", comm.rank());
    match (role, comm.rank()) {
        ("holds the entries", 0) | ("waits", 2) => wait_here(),
        ("aborts", 2) => {
            wait_here();
            comm.abort(7);
        }
        ("panics", 2) => {
            wait_here();
            // Prints nothing: on a busy machine a backtrace takes seconds.
            std::panic::resume_unwind(Box::new("as the test wants"));
        }
        ("leaves", 2) => {
            wait_here();
            drop(comm);
            return std::thread::sleep(WATCHDOG);
        }
        _ => {}
    }
    let result = match role {
        "bulk" => bulk(&comm),
        _ => comm.barrier(),
    };
    let told = millis();
    say("end", describe(result));
    say("told", told);
    // No rank leaves before the others have seen what they must see.
    std::thread::sleep(Duration::from_millis(300));
}

/// Gathers and broadcasts large buffers until that fails.
fn bulk(comm: &TcpBackend) -> Result<(), CommError> {
    let (size, mut mine) = (comm.size(), vec![1_u8; 1 << 20]);
    let mut all = vec![0; size * mine.len()];
    let displs: Vec<usize> = (0..size).map(|rank| rank * mine.len()).collect();
    loop {
        comm.allgatherv(&mine, &mut all, &vec![mine.len(); size], &displs)?;
        comm.broadcast(&mut mine, size - 1)?;
    }
}

fn describe(result: Result<(), CommError>) -> String {
    match result {
        Ok(()) => "ok".to_owned(),
        Err(ref error @ CommError::CollectiveFailed { kind, rank, .. }) => {
            let rank = rank.map_or("none".to_owned(), |rank| rank.to_string());
            let placed = kind != FailureKind::PeerLost || error.to_string().contains("127.0.0.1");
            assert!(placed, "{error}");
            format!("{kind:?} {rank}")
        }
        Err(other) => other.to_string(),
    }
}

/// Starts ranks and waits until all have begun. Rank 2 is not in the call of the others.
fn ready(role: &str, size: usize, sealed: bool) -> Vec<Rank> {
    ready_with(role, size, sealed, SECONDS)
}

/// Like [`ready`], with a timeout of this many seconds.
fn ready_with(role: &str, size: usize, sealed: bool, seconds: &str) -> Vec<Rank> {
    let role = format!("{role} {}", if sealed { "sealed" } else { "plain" });
    let mut ranks = start_with(&role, size, seconds);
    for rank in &mut ranks {
        rank.wait_for("ready");
    }
    ranks
}

/// Checks that these ranks get one of these causes soon, all the same one.
#[track_caller]
fn told(ranks: &mut [Rank], who: &[usize], causes: &[&str]) -> String {
    let began = Instant::now();
    let told: Vec<String> = who.iter().map(|&r| ranks[r].wait_for("end")).collect();
    let took = began.elapsed();
    assert!(causes.contains(&told[0].as_str()), "{told:?}");
    assert!(told.iter().all(|cause| *cause == told[0]), "{told:?}");
    assert!(took < SOON, "after {took:?}");
    told[0].clone()
}

/// Resumes a stopped rank 0 after a while, and checks that all ranks except `gone` get this cause then, not
/// before.
#[track_caller]
fn told_when_rank_0_goes_on(mut ranks: Vec<Rank>, gone: usize, causes: &[&str]) {
    std::thread::sleep(Duration::from_millis(1500));
    let goes_on = millis();
    ranks[0].signal(Signal::CONT);
    let all: Vec<usize> = (0..ranks.len()).filter(|&rank| rank != gone).collect();
    told(&mut ranks, &all, causes);
    for rank in all {
        let told: u128 = ranks[rank].wait_for("told").parse().unwrap();
        assert!(told >= goes_on, "rank {rank} was told before");
    }
}

/// Rank 2 dies while rank 0 is stopped: all ranks get the error when rank 0 is resumed.
#[rstest]
fn a_death_is_told_when_a_stopped_rank_0_goes_on(
    #[values(3, 4, 7)] size: usize,
    #[values(false, true)] sealed: bool,
) {
    let ranks = ready("waits", size, sealed);
    ranks[0].stop();
    ranks[2].signal(Signal::KILL);
    told_when_rank_0_goes_on(ranks, 2, &["PeerLost 2"]);
}

/// The same in the middle of bulk, where a neighbour sees its link break.
#[rstest]
fn a_death_in_the_middle_of_bulk_is_told_when_a_stopped_rank_0_goes_on(
    #[values(false, true)] sealed: bool,
    #[values(1, 7, 23)] after_millis: u64,
) {
    let ranks = ready("bulk", 5, sealed);
    std::thread::sleep(Duration::from_millis(after_millis));
    ranks[0].stop();
    ranks[2].signal(Signal::KILL);
    told_when_rank_0_goes_on(ranks, 2, &["PeerLost 2"]);
}

/// The same for every way in which a rank goes.
#[rstest]
#[case("aborts", "Aborted 2")]
#[case("panics", "PeerLost 2")]
#[case("leaves", "PeerLost 2")]
fn a_rank_that_goes_is_named_when_a_stopped_rank_0_goes_on(
    #[case] role: &str,
    #[case] cause: &str,
) {
    let ranks = ready(role, 4, false);
    ranks[0].stop();
    ranks[2].let_go();
    told_when_rank_0_goes_on(ranks, 2, &[cause]);
}

/// Rank 0 stays stopped: after the timeout all ranks name it, not the rank that died, nor a neighbour.
#[rstest]
fn a_rank_0_that_stays_stopped_is_named_after_the_timeout(
    #[values(("waits", 0), ("bulk", 7), ("bulk", 23))] (role, after_millis): (&str, u64),
    #[values(false, true)] sealed: bool,
) {
    let mut ranks = ready_with(role, 5, sealed, "2");
    std::thread::sleep(Duration::from_millis(after_millis));
    ranks[0].stop();
    ranks[2].signal(Signal::KILL);
    told(&mut ranks, &[1, 3, 4], &["TimedOut 0"]);
}

/// Rank 0 resumes with the entries of all ranks received, including that of the dead one.
#[rstest]
fn rank_0_that_could_answer_fails_as_the_others_after_a_death(#[values(false, true)] sealed: bool) {
    let mut ranks = ready("holds the entries", 4, sealed);
    ranks[0].stop();
    // Long enough for an entry, not for more: whether it has arrived changes nothing.
    std::thread::sleep(Duration::from_millis(20));
    ranks[2].kill();
    // So long that a resumed rank 0 checks what arrived meanwhile.
    std::thread::sleep(Duration::from_millis(200));
    ranks[0].let_go();
    ranks[0].signal(Signal::CONT);
    told(&mut ranks, &[0, 1, 3], &["PeerLost 2"]);
}

/// Of two ranks that die while rank 0 is stopped, all name the same one.
#[test]
fn two_deaths_while_rank_0_is_stopped_have_one_cause() {
    for _ in 0..5 {
        let mut ranks = ready("waits", 6, false);
        ranks[0].stop();
        ranks[4].signal(Signal::KILL);
        ranks[2].signal(Signal::KILL);
        ranks[0].signal(Signal::CONT);
        told(&mut ranks, &[0, 1, 3, 5], &["PeerLost 2", "PeerLost 4"]);
    }
}

/// A stopped worker delays no other rank: only rank 0 decides, and at once.
#[rstest]
fn a_stopped_worker_keeps_nobody_waiting(#[values(false, true)] sealed: bool) {
    let mut ranks = ready("waits", 4, sealed);
    ranks[1].stop();
    ranks[2].signal(Signal::KILL);
    told(&mut ranks, &[0, 3], &["PeerLost 2"]);
    ranks[1].signal(Signal::CONT);
    told(&mut ranks, &[1], &["PeerLost 2"]);
}

/// A rank 0 that is only slow does no harm: a job during which rank 0 was stopped continues.
#[test]
fn a_pause_of_rank_0_harms_nobody_where_nobody_died() {
    let mut ranks = ready("waits", 4, false);
    ranks[0].stop();
    std::thread::sleep(Duration::from_secs(1));
    ranks[2].let_go();
    ranks[0].signal(Signal::CONT);
    told(&mut ranks, &[0, 1, 2, 3], &["ok"]);
}
