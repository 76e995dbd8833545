//! A fence notices a death, and times out on an absent rank, as a collective does; so does a split.

use comm_api::{CommError, Communicator, FailureKind, SharedMemoryProvider, SharedRegion};
use rustix::process::{Signal, getpid, kill_process};

use super::PATIENCE;
use super::survivors::{died, in_time};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C9, C12};
use crate::clock::{self, Metronome};
use crate::model::{Memory, Need};
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::{ends_the_region, fails, still_works, words};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("faults::a_fence_hears_of_a_kill", &[C9, C12], |run| {
            a_fence_hears::<S>(run, true)
        })
        .at_least(2)
        .needs(Need::Processes)
        .deaths(),
        Case::new("faults::a_fence_hears_of_a_panic", &[C9, C12], |run| {
            a_fence_hears::<S>(run, false)
        })
        .at_least(2)
        .deaths(),
        Case::new("faults::a_fence_times_out", &[C9, C12], |run| {
            a_fence_times_out::<S>(run)
        })
        .at_least(2)
        .deaths(),
        Case::new("faults::a_split_times_out", &[C12], |run| {
            a_split_times_out::<S>(run)
        })
        .at_least(2)
        .deaths(),
    ]
}

/// The middle rank lives and never enters the fence of a region; the communicator stays usable.
fn a_fence_times_out<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open_seat::<S>(&run.seat("").with_timeout(PATIENCE))?;
    let mut region = comm.create_shared_region::<u64>(100)?;
    region.fence()?;
    comm.barrier()?;
    let absent = run.size() / 2;
    stays_away::<S>(run, "fence", absent, || {
        let result = region.fence();
        if S::MODEL.memory == Memory::Shared {
            ends_the_region("fence", &result);
        }
        result
    })?;
    still_works(run, &comm)
}

/// The last rank lives and never enters a call of a split; the communicator that was split stays usable.
fn a_split_times_out<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open_seat::<S>(&run.seat("").with_timeout(PATIENCE))?;
    let split = comm.split_local()?;
    stays_away::<S>(run, "barrier", run.size() - 1, || split.barrier())?;
    still_works(run, &comm)
}

/// All ranks except one enter `call`, whose members are the ranks of a node, and time out after the timeout
/// of their communicator.
fn stays_away<S: Subject>(
    run: &Run,
    what: &str,
    absent: usize,
    call: impl FnOnce() -> Result<(), CommError>,
) -> Verdict {
    if run.rank == absent {
        run.wait_all(run.others(), "told")?;
    } else {
        let metronome = Metronome::start();
        run.at(format_args!("in a {what} without rank {absent}"));
        let entered = clock::now();
        let result = call();
        let told = clock::now();
        run.post("told", "")?;
        if S::MODEL.memory == Memory::Heap {
            result?;
        } else {
            let message = fails(what, result, FailureKind::TimedOut, absent);
            words::absent(absent, PATIENCE, &message);
            let bound = PATIENCE + S::MODEL.death_within();
            let took = in_time(entered, told, bound, &metronome).took;
            assert!(took >= PATIENCE / 2, "given up after {took:?} only");
        }
    }
    // All ranks have left the call before any of them waits for another again.
    run.wait_all((0..run.size()).filter(|&rank| rank != absent), "told")
}

/// The middle rank goes while the others are in the fence of a region.
fn a_fence_hears<S: Subject>(run: &Run, killed: bool) -> Verdict {
    let comm = run.open::<S>()?;
    let mut region = comm.create_shared_region::<u64>(100)?;
    region.fence()?;
    comm.barrier()?;
    let victim = run.size() / 2;
    if run.rank == victim {
        let kill = Leaving::Signal(Signal::KILL.as_raw());
        run.leaving(if killed { kill } else { Leaving::Panic });
        run.wait_all(run.others(), "entering")?;
        run.post("gone", &clock::now().as_nanos().to_string())?;
        if killed {
            kill_process(getpid(), Signal::KILL)?;
        }
        panic!("the rank that is meant to panic");
    }
    let metronome = Metronome::start();
    run.post("entering", "")?;
    run.at(format_args!("in a fence without rank {victim}"));
    let result = region.fence();
    let told = clock::now();
    if S::MODEL.memory == Memory::Heap {
        // Every rank is a node of its own: its fences concern no other rank.
        result?;
    } else {
        fails("fence", result, FailureKind::PeerLost, victim);
        let since = died(run, victim, "gone")?;
        in_time(since, told, S::MODEL.death_within(), &metronome);
    }
    run.at(format_args!("in a collective without rank {victim}"));
    fails("barrier", comm.barrier(), FailureKind::PeerLost, victim);
    Ok(())
}
