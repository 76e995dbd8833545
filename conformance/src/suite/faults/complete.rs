//! A call that all ranks have entered succeeds on all of them, whatever happens after that.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use comm_api::{Communicator, FailureKind, ReduceOp};
use rustix::process::{Pid, Signal, kill_process};

use crate::case::{Case, Verdict};
use crate::clause::Clause::C12;
use crate::model::Need;
use crate::run::Run;
use crate::subject::{Failure, Subject};
use crate::suite::fails;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new(
            "faults::a_complete_call_succeeds_on_who_slept_through_a_failure",
            &[C12],
            |run| a_complete_call_succeeds::<S>(run),
        )
        .at_least(3)
        .needs(Need::Processes)
        .needs(Need::SeveralOpens)
        .deaths(),
    ]
}

/// How often it is tried: the last rank may be stopped before it has contributed, and then the round shows
/// nothing.
const ROUNDS: usize = 8;

/// How long the others have to finish the call while the last rank is stopped.
const STOPPED: Duration = Duration::from_secs(2);

/// The last rank is stopped inside a call. The others finish the call, rank 0 leaves, and the next call fails
/// on them. Then the last rank continues and finds all that at once, and its call has succeeded.
fn a_complete_call_succeeds<S: Subject>(run: &Run) -> Verdict {
    let (leaver, sleeper) = (0, run.size() - 1);
    run.post("pid", &std::process::id().to_string())?;
    for round in 0..ROUNDS {
        let comm = run.open_seat::<S>(&run.seat(&format!("round-{round}")))?;
        comm.barrier()?;
        let key = |what: &str| format!("{what}-{round}");
        run.at(format_args!("round {round}: the call that all enter"));
        let slept = if run.rank == 1 {
            run.wait(sleeper, &key("entering"))?;
            run.dawdle(Duration::from_millis(10));
            asleep(run, sleeper, || call(run, &comm))?
        } else {
            run.post(&key("entering"), "")?;
            call(run, &comm)?;
            false
        };
        if run.rank == leaver {
            drop(comm);
            run.post(&key("left"), "")?;
        } else {
            run.wait(leaver, &key("left"))?;
            fails(
                "the next call",
                comm.barrier(),
                FailureKind::PeerLost,
                leaver,
            );
        }
        if run.rank == 1 {
            signal(run, sleeper, Signal::CONT)?;
            run.post(&key("slept"), if slept { "yes" } else { "no" })?;
        }
        if run.wait(1, &key("slept"))? == "yes" {
            return Ok(());
        }
    }
    Err(format!("rank {sleeper} was never stopped inside a call").into())
}

/// Stops `rank`, runs `work`, and returns whether the rank was stopped all the time. A rank that was stopped
/// too early is resumed.
fn asleep(run: &Run, rank: usize, work: impl FnOnce() -> Verdict) -> Result<bool, Failure> {
    signal(run, rank, Signal::STOP)?;
    let (done, is_done) = mpsc::channel::<()>();
    thread::scope(|scope| {
        let watch = scope.spawn(move || -> Result<bool, Failure> {
            let slept = is_done.recv_timeout(STOPPED) != Err(mpsc::RecvTimeoutError::Timeout);
            if !slept {
                signal(run, rank, Signal::CONT)?;
            }
            Ok(slept)
        });
        let result = work();
        drop(done);
        let slept = watch.join().map_err(|_| "the watch panicked")??;
        result.map(|()| slept)
    })
}

/// Makes the call, and checks its result.
fn call<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let mut ranks = [usize::MAX; 3];
    let sent = [run.rank, 1, 2];
    comm.allreduce(&sent, &mut ranks, ReduceOp::Sum)?;
    let size = run.size();
    assert_eq!(ranks, [size * (size - 1) / 2, size, 2 * size]);
    Ok(())
}

fn signal(run: &Run, rank: usize, signal: Signal) -> Verdict {
    let pid = run.wait(rank, "pid")?.parse()?;
    let pid = Pid::from_raw(pid).ok_or("no process")?;
    Ok(kill_process(pid, signal)?)
}
