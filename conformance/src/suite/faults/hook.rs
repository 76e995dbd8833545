//! The hook that a blocked rank calls: the effect of a "yes", and of a panic inside a call.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use comm_api::{
    CommError, Communicator, FailureKind, ReduceOp, SharedMemoryProvider, SharedRegion,
};
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

/// How often the hook is called before it ends the call.
const ASKED: usize = 3;

/// Installs a hook for this thread only, even where ranks are threads; removes it when dropped.
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

/// A middle rank, and the first, which decides for all on some backends; in a small call and in one of many
/// pieces.
fn every_victim<S: Subject>(run: &Run, panics: bool) -> Verdict {
    for (round, (victim, len)) in [(run.size() / 2, 1), (0, 1), (run.size() / 2, 500_000)]
        .into_iter()
        .enumerate()
    {
        let comm = run.open_seat::<S>(&run.seat(&format!("round-{round}")))?;
        let ending = Ending {
            round,
            victim,
            len,
            panics,
            within: S::MODEL.death_within(),
        };
        ending.run(run, &comm)?;
    }
    Ok(())
}

/// Whose hook ends which call, and how.
struct Ending {
    round: usize,
    victim: usize,
    len: usize,
    panics: bool,
    within: Duration,
}

impl Ending {
    fn call<C: Communicator>(&self, comm: &C) -> Result<(), CommError> {
        comm.allreduce(
            &vec![1_u64; self.len],
            &mut vec![0; self.len],
            ReduceOp::Sum,
        )
    }

    /// Checks the result of a call: which rank ended it, and how.
    fn check(&self, what: &str, result: Result<(), CommError>) {
        if self.panics {
            let message = fails(what, result, FailureKind::PeerLost, self.victim);
            words::lost("it panicked inside a call", &message);
        } else {
            let message = fails(what, result, FailureKind::Aborted, self.victim);
            assert_eq!(message, words::INTERRUPTED, "{what}");
        }
    }

    /// The victim is blocked, because the lowest other rank has not arrived, when its hook ends the call. It
    /// keeps its communicator: the others are notified all the same.
    fn run<C: Communicator>(&self, run: &Run, comm: &C) -> Verdict {
        comm.barrier()?;
        let (victim, round) = (self.victim, self.round);
        let (gone, told) = (format!("gone-{round}"), format!("told-{round}"));
        let late = usize::from(victim == 0);
        if run.rank == victim {
            let hook = Hook::install(self.panics);
            run.at(format_args!("round {round}: blocked, with a hook"));
            let result = catch_unwind(AssertUnwindSafe(|| self.call(comm)));
            drop(hook);
            run.post(&gone, &clock::now().as_nanos().to_string())?;
            match result {
                Ok(result) if !self.panics => self.check("the interrupted call", result),
                Ok(result) => panic!("the hook was not asked: {result:?}"),
                Err(_) => assert!(self.panics, "the hook did not panic"),
            }
        } else {
            if run.rank == late {
                run.wait(victim, &gone)?;
                if !self.panics && self.len > 1 {
                    // A waiting rank is notified of an abort at once, whether or not this rank arrives.
                    let waiting = run.others().filter(|&other| other != victim);
                    run.wait_all(waiting, &told)?;
                }
            }
            run.at(format_args!(
                "round {round}: in a call that ends on rank {victim}"
            ));
            self.told_in_time(run, comm, &gone)?;
        }
        run.post(&told, "")?;
        for again in 0..3 {
            run.at(format_args!("round {round}: calling again, {again}"));
            self.check("a later call", comm.barrier());
            self.check("a later call", comm.broadcast(&mut [0_u8], 0));
        }
        // No rank drops its communicator before all have got their errors, because a drop would notify them.
        let done = format!("done-{round}");
        run.post(&done, "")?;
        run.wait_all(run.others(), &done)
    }

    fn told_in_time<C: Communicator>(&self, run: &Run, comm: &C, gone: &str) -> Verdict {
        let metronome = Metronome::start();
        let mut entered = clock::now();
        let mut result = self.call(comm);
        if result.is_ok() {
            // The victim contributed before its call ended: that call counts, and the next one cannot.
            entered = clock::now();
            result = self.call(comm);
        }
        let told = clock::now();
        self.check("the call of another rank", result);
        let since = died(run, self.victim, gone)?.max(entered);
        in_time(since, told, self.within, &metronome);
        Ok(())
    }
}

/// The last rank is interrupted in a fence that rank 0 has not entered.
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
    // No rank drops its handle before all have got their errors, because a drop would notify them.
    run.wait_all(run.others(), "interrupted")
}
