//! A job that is suspended as a whole, by a scheduler, a container or the lid of a laptop, continues where it
//! was.

use std::process::Command;
use std::time::Duration;

use comm_api::{CommError, Communicator, ReduceOp};
use rustix::process::getpid;

use crate::case::{Case, Verdict};
use crate::clause::Clause::C6;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::still_works;

/// How long the ranks wait for a living one. A rank may plan a sleep of a second, and that second counts.
const TIMEOUT: Duration = Duration::from_millis(2500);

/// For how many seconds no rank runs, each time: once longer than the timeout, then shortly, repeatedly.
const SUSPENDED: &str = "2.7 0.7 0.7";

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("faults::a_suspended_job_goes_on", &[C6], |run| {
            a_suspended_job_goes_on::<S>(run)
        })
        .at_least(3)
        .at_most(3),
    ]
}

/// Every rank is stopped while all but the last are inside a call. The time in which no rank ran does not
/// count.
fn a_suspended_job_goes_on<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open_seat::<S>(&run.seat("").with_timeout(TIMEOUT))?;
    still_works(run, &comm)?;
    let late = run.size() - 1;
    run.post("pid", &getpid().as_raw_nonzero().to_string())?;
    if run.rank == late {
        run.wait_all(0..late, "entering")?;
        run.dawdle(Duration::from_millis(20));
        suspend(run)?;
    } else {
        run.post("entering", "")?;
    }
    run.at(format_args!("in a call of a job that was suspended"));
    large(&comm)?;
    still_works(run, &comm)
}

fn large<C: Communicator>(comm: &C) -> Result<(), CommError> {
    comm.allreduce(&vec![1_u64; 100_000], &mut vec![0; 100_000], ReduceOp::Sum)
}

/// Stops the processes of all ranks, including this one, and resumes them later; several times.
fn suspend(run: &Run) -> Verdict {
    let mut pids = Vec::new();
    for rank in 0..run.size() {
        pids.push(run.wait(rank, "pid")?);
    }
    // Threads of one process have the same pid.
    pids.dedup();
    let pids = pids.join(" ");
    run.at(format_args!("suspending the job"));
    // Another process has to do it: a stopped process cannot resume any.
    let script = format!(
        "for time in {SUSPENDED}; do kill -STOP {pids}; sleep $time; kill -CONT {pids} || exit; sleep 0.05; done"
    );
    let status = Command::new("sh").args(["-c", &script]).status()?;
    assert!(status.success(), "the ranks were not suspended: {status}");
    Ok(())
}
