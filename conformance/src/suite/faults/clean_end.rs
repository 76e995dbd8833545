//! The clean end: C14. Every job is checked for leftovers with its name; these cases are the ends that are
//! hard to clean up after.

use std::fs;
use std::thread;
use std::time::Instant;

use comm_api::{Communicator, CommunicatorExt, ReduceOp, SharedMemoryProvider, SharedRegion};
use rustix::process::{Signal, getpid, kill_process};

use super::PATIENCE;
use crate::case::{Case, Verdict};
use crate::clause::Clause::C14;
use crate::model::Need;
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::{Failure, Subject};
use crate::suite::still_works;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("faults::all_are_killed_and_start_again", &[C14], |run| {
            all_are_killed_and_start_again(run, &run.open::<S>()?)
        })
        .needs(Need::Processes)
        .rounds(3)
        .deaths(),
        Case::new("faults::one_process_ends_and_starts_again", &[C14], |run| {
            still_works(run, &run.open::<S>()?)
        })
        .rounds(3),
        Case::new("faults::the_first_is_killed_at_the_start", &[C14], |run| {
            the_first_is_killed_at_the_start::<S>(run)
        })
        .at_least(3)
        .needs(Need::Processes)
        .needs(Need::SeveralOpens)
        .deaths(),
        Case::new("faults::one_name_again_and_again", &[C14], |run| {
            one_name_again_and_again::<S>(run)
        })
        .needs(Need::SeveralOpens),
        Case::new("faults::nothing_grows", &[C14], nothing_grows::<S>).needs(Need::SeveralOpens),
    ]
}

/// All ranks are killed, with regions and splits alive; the same job starts again at once.
fn all_are_killed_and_start_again<C: Communicator + SharedMemoryProvider>(
    run: &Run,
    comm: &C,
) -> Verdict {
    still_works(run, comm)?;
    if run.orders.round == 2 {
        return Ok(());
    }
    let mut region = comm.create_shared_region::<u64>(10_000)?;
    let split = comm.split_local()?;
    region.fence()?;
    split.barrier()?;
    run.leaving(Leaving::Signal(Signal::KILL.as_raw()));
    run.post("announced", "")?;
    run.wait_all(run.others(), "announced")?;
    kill_process(getpid(), Signal::KILL)?;
    Err("a signal to this process did not arrive".into())
}

/// Rank 0 is killed while some of the others have joined and one has not: they time out, and nothing is left
/// behind.
fn the_first_is_killed_at_the_start<S: Subject>(run: &Run) -> Verdict {
    let _comm = run.open::<S>()?;
    let late = run.size() - 1;
    let seat = run.seat("doomed");
    let seat = seat.with_timeout(PATIENCE).with_connect_timeout(PATIENCE);
    let waiting = 1..late;
    if run.rank == 0 {
        run.leaving(Leaving::Signal(Signal::KILL.as_raw()));
        return thread::scope(|scope| {
            let opening = scope.spawn(|| S::open(&seat).is_ok());
            run.wait_all(waiting, "opening")?;
            run.dawdle(PATIENCE / 4);
            kill_process(getpid(), Signal::KILL)?;
            Err(format!("not killed; opened: {:?}", opening.join().ok()).into())
        });
    }
    if run.rank == late {
        return run.wait_all(waiting, "failed");
    }
    run.post("opening", "")?;
    run.at(format_args!("starting with a rank 0 that is killed"));
    let start = Instant::now();
    let opened = S::open(&seat).is_ok();
    assert!(!opened, "a communicator started without rank {late}");
    let took = start.elapsed();
    assert!(took < run.orders.limit / 4, "gave up after {took:?}");
    run.post("failed", "")
}

/// A name is free as soon as its communicator is gone on all ranks.
fn one_name_again_and_again<S: Subject>(run: &Run) -> Verdict {
    for round in 0..20 {
        let comm = run.open::<S>()?;
        let sum = comm.allreduce_scalar(round + run.rank, ReduceOp::Sum)?;
        assert_eq!(sum, run.size() * round + run.size() * (run.size() - 1) / 2);
        drop(comm);
        let key = format!("dropped-{round}");
        run.post(&key, "")?;
        run.wait_all(run.others(), &key)?;
    }
    Ok(())
}

/// The numbers of descriptors and threads do not grow with communicators, regions and splits that are gone,
/// and return to their initial values when the last one is dropped.
fn nothing_grows<S: Subject>(run: &Run) -> Verdict {
    let at_first = holdings()?;
    let comm = run.open::<S>()?;
    come_and_go::<S>(run, 0)?;
    let before = holdings_at_rest(run, &comm)?;
    for round in 1..=ROUNDS {
        come_and_go::<S>(run, round)?;
    }
    let after = holdings_at_rest(run, &comm)?;
    // What a long-lived communicator opens when it first needs it does not grow with the rounds.
    let grown = (after.0.saturating_sub(before.0)).max(after.1.saturating_sub(before.1));
    assert!(
        grown < ROUNDS / 2,
        "descriptors and threads grew from {before:?} to {after:?} in {ROUNDS} rounds"
    );
    drop(comm);
    // Where ranks are threads of one process, other ranks come and go independently.
    if run.processes() {
        assert_eq!(holdings()?, at_first, "descriptors and threads at the end");
    }
    Ok(())
}

/// How many communicators are created and dropped.
const ROUNDS: usize = 100;

fn come_and_go<S: Subject>(run: &Run, round: usize) -> Verdict {
    let comm = run.open_seat::<S>(&run.seat(&format!("n{round}")))?;
    let mut region = comm.create_shared_region::<u8>(100)?;
    region.fence()?;
    comm.split_local()?.barrier()?;
    comm.barrier()?;
    Ok(())
}

/// Counts while no other rank opens anything; where ranks are threads, one counts for all.
fn holdings_at_rest<C: Communicator>(run: &Run, comm: &C) -> Result<(usize, usize), Failure> {
    comm.barrier()?;
    let counted = if run.processes() || run.rank == 0 {
        holdings()?
    } else {
        (0, 0)
    };
    comm.barrier()?;
    Ok(counted)
}

/// Counts the open descriptors and the threads of this process.
fn holdings() -> Result<(usize, usize), Failure> {
    let count = |dir: &str| -> Result<usize, Failure> { Ok(fs::read_dir(dir)?.count()) };
    if cfg!(target_os = "linux") {
        Ok((count("/proc/self/fd")?, count("/proc/self/task")?))
    } else {
        // Where threads cannot be listed, descriptors can.
        Ok((count("/dev/fd")?, 0))
    }
}
