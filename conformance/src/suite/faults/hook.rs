//! The hook that a blocked rank asks: what comes of a "yes", and of a panic inside a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use comm_api::{Communicator, FailureKind};
use comm_kit::interrupt;

use super::survivors::{died, in_time};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C12, C13};
use crate::clock::{self, Metronome};
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::{fails, words};

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new(
            "faults::an_interrupted_call_is_aborted",
            &[C12, C13],
            |run| ends_by_the_hook::<S>(run, false),
        )
        .at_least(2),
        Case::new(
            "faults::a_panic_inside_a_call_is_told",
            &[C12, C13],
            |run| ends_by_the_hook::<S>(run, true),
        )
        .at_least(2),
    ]
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

/// The middle rank is blocked, because the lowest other has not come, when its hook ends the call. It keeps its
/// communicator: the others learn of it all the same.
fn ends_by_the_hook<S: Subject>(run: &Run, panics: bool) -> Verdict {
    let comm = run.open::<S>()?;
    comm.barrier()?;
    let victim = run.size() / 2;
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
        run.post("gone", &clock::now().as_nanos().to_string())?;
        match result {
            Ok(result) if !panics => check("the interrupted call", result),
            Ok(result) => panic!("the hook was not asked: {result:?}"),
            Err(_) => assert!(panics, "the hook did not panic"),
        }
    } else {
        if run.rank == late {
            run.wait(victim, "gone")?;
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
        let since = died(run, victim, "gone")?.max(entered);
        in_time(since, told, S::MODEL.death_within(), &metronome);
    }
    for round in 0..3 {
        run.at(format_args!("calling again, round {round}"));
        check("a later call", comm.barrier());
        check("a later call", comm.broadcast(&mut [0_u8], 0));
    }
    // Nobody drops its communicator before all have been told: that would tell them.
    run.post("told", "")?;
    run.wait_all(run.others(), "told")
}
