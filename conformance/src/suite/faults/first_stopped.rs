//! A death while rank 0 is stopped: the others learn of it before rank 0 continues, and rank 0 gets the same
//! error then.

use std::time::Duration;

use comm_api::{Communicator, FailureKind};
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::survivors::{died, in_time};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C12, C13};
use crate::clock::{self, Metronome};
use crate::model::Need;
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::fails;

/// How long the ranks wait for a living one: much longer than the bound for reporting a death.
const TIMEOUT: Duration = Duration::from_secs(8);

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new(
            "faults::told_while_the_first_is_stopped",
            &[C12, C13],
            |run| told_while_the_first_is_stopped::<S>(run),
        )
        .at_least(3)
        .needs(Need::Processes)
        .needs(Need::RulingWithoutRankZero)
        .deaths(),
    ]
}

fn told_while_the_first_is_stopped<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open_seat::<S>(&run.seat("").with_timeout(TIMEOUT))?;
    comm.barrier()?;
    run.post("pid", &getpid().as_raw_nonzero().to_string())?;
    let victim = run.size() - 1;
    if run.rank == victim {
        return go(run);
    }
    let metronome = Metronome::start();
    run.post("entering", "")?;
    run.at(format_args!("in a call without rank {victim}"));
    let entered = clock::now();
    let result = comm.barrier();
    let told = clock::now();
    run.post("told", "")?;
    if run.rank == 1 {
        // Whatever the others got, rank 0 must be resumed.
        let all = run.wait_all(2..victim, "told");
        signal(run, 0, Signal::CONT)?;
        all?;
    }
    fails(
        "while rank 0 is stopped",
        result,
        FailureKind::PeerLost,
        victim,
    );
    if run.rank > 0 {
        let since = died(run, victim, "gone")?.max(entered);
        let bound = S::MODEL.death_within();
        run.report.told(in_time(since, told, bound, &metronome));
    }
    // No rank leaves before all have got their errors, because a departure would notify them.
    let others = run.others().filter(|&other| other != victim);
    run.wait_all(others, "told")
}

/// Stops rank 0 while all are in a call, and dies.
fn go(run: &Run) -> Verdict {
    run.leaving(Leaving::Signal(Signal::KILL.as_raw()));
    run.wait_all(run.others(), "entering")?;
    run.dawdle(Duration::from_millis(10));
    signal(run, 0, Signal::STOP)?;
    // The signal has reached all threads of rank 0 by then.
    run.dawdle(Duration::from_millis(50));
    run.post("gone", &clock::now().as_nanos().to_string())?;
    kill_process(getpid(), Signal::KILL)?;
    Err("a signal to this process did not arrive".into())
}

fn signal(run: &Run, rank: usize, signal: Signal) -> Verdict {
    let pid = run.wait(rank, "pid")?;
    let pid = Pid::from_raw(pid.parse()?).ok_or("no process")?;
    Ok(kill_process(pid, signal)?)
}
