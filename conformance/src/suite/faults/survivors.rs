//! The errors of the survivors, and how soon they get them.

use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind};
use rustix::process::{Pid, Signal, kill_process};

use super::{Departure, PATIENCE, Point};
use crate::case::Verdict;
use crate::clock::{self, Metronome};
use crate::report::Told;
use crate::run::Run;
use crate::subject::Failure;
use crate::suite::{fails, words};

/// Waits for the error that names `victim`, and checks everything about it.
pub(super) fn survive<C: Communicator>(
    run: &Run,
    comm: &C,
    way: Departure,
    point: Point,
    victim: usize,
    within: Duration,
) -> Verdict {
    // Inside a call, the victim waits for one rank that has not entered: the lowest other one.
    let lowest = (0..run.size()).find(|&rank| rank != victim);
    let late = point.is_inside() && lowest == Some(run.rank);
    if way != Departure::Absent && (late || point == Point::Between) {
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
    let kind = if way.is_alive() {
        FailureKind::TimedOut
    } else {
        FailureKind::PeerLost
    };
    let message = fails("without one rank", result, kind, victim);
    match way.lost() {
        Some(how) => words::lost(how, &message),
        // In the middle of a call, a rank that has entered may also be reported as transferring no data.
        None if point == Point::InsideLarge => {}
        None => words::absent(victim, PATIENCE, &message),
    }
    if way.is_alive() {
        let took = in_time(entered, told, PATIENCE + within, &metronome).took;
        let least = PATIENCE.mul_f64(0.5);
        assert!(
            took >= least,
            "rank {victim} was given up after {took:?} only"
        );
    } else {
        let since = died(run, victim, "gone")?.max(entered);
        run.report.told(in_time(since, told, within, &metronome));
    }
    again(run, comm, &metronome, kind, victim);
    run.post("told", "")?;
    // No rank leaves before all have got their errors, because a departure would notify them.
    let others = run.others().filter(|&other| other != victim);
    run.wait_all(others, "told")?;
    if way == Departure::Stopped && lowest == Some(run.rank) {
        end(&run.wait(victim, "pid")?)?;
    }
    Ok(())
}

/// Returns when the victim went.
pub(super) fn died(run: &Run, victim: usize, key: &str) -> Result<Duration, Failure> {
    let nanos = run.wait(victim, key)?.parse::<u64>()?;
    Ok(Duration::from_nanos(nanos))
}

/// Checks that a rank got its error soon enough; returns how soon.
#[track_caller]
pub(super) fn in_time(
    since: Duration,
    told: Duration,
    bound: Duration,
    metronome: &Metronome,
) -> Told {
    let (took, slack) = (told.saturating_sub(since), metronome.slack());
    assert!(
        took <= bound + slack,
        "told after {took:?}, bound {bound:?}, the machine added {slack:?}"
    );
    Told { took, bound, slack }
}

/// Every later call returns the first cause again, at once.
fn again<C: Communicator>(
    run: &Run,
    comm: &C,
    metronome: &Metronome,
    kind: FailureKind,
    victim: usize,
) {
    for round in 0..3 {
        run.at(format_args!("calling again, round {round}"));
        let start = Instant::now();
        let calls: [Result<(), CommError>; 2] = [comm.barrier(), comm.broadcast(&mut [0_u8], 0)];
        let took = start.elapsed();
        for result in calls {
            fails("later", result, kind, victim);
        }
        let bound = Duration::from_millis(50) + metronome.slack();
        assert!(took <= bound, "the later calls took {took:?}");
    }
}

/// Kills a rank that was stopped and cannot exit by itself.
fn end(pid: &str) -> Verdict {
    let pid = Pid::from_raw(pid.parse()?).ok_or("no process")?;
    kill_process(pid, Signal::KILL)?;
    Ok(())
}
