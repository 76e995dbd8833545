//! What the others get to hear, and how soon.

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind};
use rustix::process::{Pid, Signal, kill_process};

use super::{PATIENCE, Point, Way};
use crate::case::Verdict;
use crate::clock::{self, Metronome};
use crate::run::Run;
use crate::subject::Failure;
use crate::suite::{kind_and_rank, words};

/// Waits for the error that names `victim`, and checks everything about it.
pub(super) fn survive<C: Communicator>(
    run: &Run,
    comm: &C,
    way: Way,
    point: Point,
    victim: usize,
    within: Duration,
) -> Verdict {
    // Inside a call, the victim waits for one rank that has not entered: the lowest other one.
    let lowest = (0..run.size()).find(|&rank| rank != victim);
    let late = point.is_inside() && lowest == Some(run.rank);
    if way != Way::Absent && (late || point == Point::Between) {
        run.wait(victim, "gone")?;
    }
    let metronome = Metronome::start();
    run.post("entering", "")?;
    run.at(format_args!("in a call without rank {victim}"));
    let entered = clock::now();
    let mut result = point.call(comm);
    if result.is_ok() && point.is_inside() {
        // It contributed before it went: that call counts, and the next one cannot.
        result = point.call(comm);
    }
    let told = clock::now();
    let (kind, rank, message) = kind_and_rank("without one rank", result);
    let expected = if way.is_alive() {
        FailureKind::TimedOut
    } else {
        FailureKind::PeerLost
    };
    assert_eq!((kind, rank), (expected, Some(victim)), "{message}");
    match way.lost() {
        Some(how) => words::lost(how, &message),
        // In the middle of a call a rank that came may also be the one that moves nothing.
        None if point == Point::InsideLarge => {}
        None => words::absent(victim, PATIENCE, &message),
    }

    let since = if way.is_alive() {
        entered
    } else {
        died(run, victim, "gone")?.max(entered)
    };
    let took = told.saturating_sub(since);
    let bound = if way.is_alive() {
        PATIENCE + within
    } else {
        within
    };
    let slack = metronome.slack();
    assert!(
        took <= bound + slack,
        "told {took:?} after rank {victim} went, bound {bound:?}, the machine added {slack:?}"
    );
    if way.is_alive() {
        let least = PATIENCE.mul_f64(0.5);
        assert!(
            took >= least,
            "rank {victim} was given up after {took:?} only"
        );
    } else {
        run.report.told(took);
    }
    again(run, comm, &metronome, (kind, rank));
    run.post("told", "")?;
    // Nobody leaves before all have been told: who leaves would tell them.
    let others = run.others().filter(|&other| other != victim);
    run.wait_all(others, "told")?;
    if way == Way::Stopped && lowest == Some(run.rank) {
        end(&run.wait(victim, "pid")?)?;
    }
    Ok(())
}

/// Returns when the victim went.
pub(super) fn died(run: &Run, victim: usize, key: &str) -> Result<Duration, Failure> {
    let nanos = run.wait(victim, key)?.parse::<u64>()?;
    Ok(Duration::from_nanos(nanos))
}

/// Every later call gives the first cause again, at once.
fn again<C: Communicator>(
    run: &Run,
    comm: &C,
    metronome: &Metronome,
    first: (FailureKind, Option<usize>),
) {
    for round in 0..3 {
        run.at(format_args!("calling again, round {round}"));
        let start = Instant::now();
        let calls: [Result<(), CommError>; 2] = [comm.barrier(), comm.broadcast(&mut [0_u8], 0)];
        let took = start.elapsed();
        for result in calls {
            let (kind, rank, message) = kind_and_rank("a later call", result);
            assert_eq!((kind, rank), first, "later: {message}");
        }
        let bound = Duration::from_millis(50) + metronome.slack();
        assert!(took <= bound, "the later calls took {took:?}");
    }
}

/// Kills a rank that was stopped and cannot end by itself.
fn end(pid: &str) -> Verdict {
    let pid = Pid::from_raw(pid.parse()?).ok_or("no process")?;
    kill_process(pid, Signal::KILL)?;
    Ok(())
}
