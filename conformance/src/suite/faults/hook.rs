//! The hook that a blocked rank asks: what comes of a "yes", and of a panic inside a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use comm_api::{Communicator, FailureKind, SharedMemoryProvider, SharedRegion};
use comm_kit::interrupt;

use super::survivors::{died, in_time};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C9, C12, C13};
use crate::clock::{self, Metronome};
use crate::model::{Memory, Need};
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::{fails, words};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    let mut cases = vec![
        Case::new(
            "faults::an_interrupted_call_is_aborted",
            &[C12, C13],
            |run| every_victim::<S>(run, false),
        ),
        Case::new(
            "faults::a_panic_inside_a_call_is_told",
            &[C12, C13],
            |run| every_victim::<S>(run, true),
        ),
    ];
    // Where every rank is a node of its own, a fence does not wait.
    if S::MODEL.memory == Memory::Shared {
        cases.push(Case::new(
            "faults::an_interrupted_fence_is_aborted",
            &[C9, C12],
            |run| interrupted_fence(run, &run.open::<S>()?),
        ));
    }
    let suited = |case: Case| case.at_least(2).needs(Need::SeveralOpens);
    cases.into_iter().map(suited).collect()
}

/// How often the hook is asked before it ends the call.
const ASKED: usize = 3;

/// Installs a hook for this thread alone, also where ranks are threads; removes it when dropped.
struct Hook;

impl Hook {
    fn install(panics: bool) -> Self {
        let (this, asked) = (thread::current().id(), AtomicUsize::new(0));
        interrupt::set_hook(move || {
            let due = thread::current().id() == this
                && asked.fetch_add(1, Ordering::Relaxed) + 1 >= ASKED;
            assert!(!(due && panics), "the hook that is meant to panic");
            due
        });
        Self
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        interrupt::clear_hook();
    }
}

/// A middle rank, and the first, which decides for all on some backends.
fn every_victim<S: Subject>(run: &Run, panics: bool) -> Verdict {
    for victim in [run.size() / 2, 0] {
        let comm = run.open_seat::<S>(&run.seat(&format!("victim-{victim}")))?;
        ends_by_the_hook(run, &comm, victim, panics, S::MODEL.death_within())?;
    }
    Ok(())
}

/// Rank `victim` is blocked, because the lowest other has not come, when its hook ends the call. It keeps its
/// communicator: the others learn of it all the same.
fn ends_by_the_hook<C: Communicator>(
    run: &Run,
    comm: &C,
    victim: usize,
    panics: bool,
    within: Duration,
) -> Verdict {
    comm.barrier()?;
    let (gone, told_key) = (format!("gone-{victim}"), format!("told-{victim}"));
    let late = usize::from(victim == 0);
    let kind = if panics {
        FailureKind::PeerLost
    } else {
        FailureKind::Aborted
    };
    let check = |what: &str, result| {
        let message = fails(what, result, kind, victim);
        if panics {
            words::lost("it panicked inside a call", &message);
        } else {
            assert_eq!(message, words::INTERRUPTED, "{what}");
        }
    };
    let metronome = Metronome::start();
    let mut entered = clock::now();
    if run.rank == victim {
        let hook = Hook::install(panics);
        run.at(format_args!("blocked, with a hook"));
        let result = catch_unwind(AssertUnwindSafe(|| comm.barrier()));
        drop(hook);
        run.post(&gone, &clock::now().as_nanos().to_string())?;
        match result {
            Ok(result) if !panics => check("the interrupted call", result),
            Ok(result) => panic!("the hook was not asked: {result:?}"),
            Err(_) => assert!(panics, "the hook did not panic"),
        }
    } else {
        if run.rank == late {
            run.wait(victim, &gone)?;
            entered = clock::now();
        }
        run.at(format_args!("in a call that ends on rank {victim}"));
        let mut result = comm.barrier();
        if panics && result.is_ok() {
            // It contributed before it panicked: that call counts, and the next one cannot.
            entered = clock::now();
            result = comm.barrier();
        }
        let told = clock::now();
        check("the call of another rank", result);
        let since = died(run, victim, &gone)?.max(entered);
        in_time(since, told, within, &metronome);
    }
    for round in 0..3 {
        run.at(format_args!("calling again, round {round}"));
        check("a later call", comm.barrier());
        check("a later call", comm.broadcast(&mut [0_u8], 0));
    }
    // Nobody drops its communicator before all have been told: that would tell them.
    run.post(&told_key, "")?;
    run.wait_all(run.others(), &told_key)
}

/// The last rank is interrupted in a fence to which rank 0 has not come.
fn interrupted_fence<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let victim = run.size() - 1;
    let mut region = comm.create_shared_region::<u64>(10)?;
    comm.barrier()?;
    let hook = (run.rank == victim).then(|| Hook::install(false));
    if run.rank == 0 {
        run.wait(victim, "interrupted")?;
    }
    run.at(format_args!("in a fence that ends on rank {victim}"));
    let message = fails("fence", region.fence(), FailureKind::Aborted, victim);
    assert_eq!(message, words::INTERRUPTED);
    drop(hook);
    run.post("interrupted", "")?;
    // Nobody drops its handle before all have been told: that would tell them.
    run.wait_all(run.others(), "interrupted")
}
