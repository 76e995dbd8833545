//! A death in the middle of a call is reported although another rank has not entered it yet: no rank can
//! finish it.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use comm_api::{CommError, Communicator, FailureKind, ReduceOp, SharedMemoryProvider};
use rustix::process::{Signal, getpid, kill_process};

use super::survivors::{died, in_time};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C9, C12};
use crate::clock::{self, Metronome};
use crate::model::{Memory, Need};
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::fails;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = vec![Case::new(
        "faults::a_death_inside_a_large_call_does_not_wait_for_the_late",
        &[C12],
        |run| midway(run, &run.open::<S>()?, large, S::MODEL.death_within()),
    )];
    // Where every rank is a node of its own, regions concern no other rank.
    if S::MODEL.memory == Memory::Shared {
        cases.push(Case::new(
            "faults::a_death_while_a_region_is_made_does_not_wait_for_the_late",
            &[C9, C12],
            |run| midway(run, &run.open::<S>()?, region, S::MODEL.death_within()),
        ));
    }
    let suited = |case: Case| case.at_least(3).needs(Need::Processes).deaths();
    cases.into_iter().map(suited).collect()
}

/// Reduces a payload of many pieces.
fn large<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<(), CommError> {
    comm.allreduce(&vec![1_u64; 500_000], &mut vec![0; 500_000], ReduceOp::Sum)
}

fn region<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<(), CommError> {
    comm.create_partitioned_region::<u64>(100).map(drop)
}

/// The last rank dies inside `call`, which the middle one has not entered; the others get their errors in
/// time.
fn midway<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
    call: fn(&C) -> Result<(), CommError>,
    within: Duration,
) -> Verdict {
    let (victim, late) = (run.size() - 1, run.size() / 2);
    comm.barrier()?;
    let waiting = (0..run.size()).filter(|&rank| rank != victim && rank != late);
    if run.rank == victim {
        run.leaving(Leaving::Signal(Signal::KILL.as_raw()));
        run.wait_all(waiting, "entering")?;
        return die_inside(run, comm, call);
    }
    let metronome = Metronome::start();
    if run.rank == late {
        run.wait_all(waiting, "told")?;
    } else {
        run.post("entering", "")?;
    }
    run.at(format_args!("in a call that rank {victim} died in"));
    let result = call(comm);
    let told = clock::now();
    fails(
        "a call that a rank died in",
        result,
        FailureKind::PeerLost,
        victim,
    );
    if run.rank != late {
        let since = died(run, victim, "gone")?;
        run.report.told(in_time(since, told, within, &metronome));
    }
    run.post("told", "")
}

/// Enters `call`; another thread kills the rank while it waits in there.
fn die_inside<C: Communicator>(
    run: &Run,
    comm: &C,
    call: fn(&C) -> Result<(), CommError>,
) -> Verdict {
    let (entering, entered) = mpsc::channel();
    thread::scope(|scope| {
        let killing = scope.spawn(move || -> Verdict {
            entered.recv()?;
            run.dawdle(Duration::from_millis(30));
            run.post("gone", &clock::now().as_nanos().to_string())?;
            kill_process(getpid(), Signal::KILL)?;
            Err("a signal to this process did not arrive".into())
        });
        entering.send(())?;
        let result = call(comm);
        match killing.join() {
            Ok(Err(failure)) => Err(failure),
            _ => Err(format!("the call that cannot end gave {result:?}").into()),
        }
    })
}
