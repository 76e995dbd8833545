//! Ranks that go after their part of a call was done, and ranks that learn of a death at different times.

use std::panic::{AssertUnwindSafe, catch_unwind};

use comm_api::{Communicator, FailureKind, ReduceOp};

use super::departure::depart;
use super::survivors::{died, in_time, survive};
use super::{Departure, Point};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C12, C13};
use crate::clock::{self, Metronome};
use crate::model::Need;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::fails;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("faults::who_contributed_may_leave", &[C12], |run| {
            who_contributed_may_leave::<S>(run)
        })
        .at_least(2)
        .needs(Need::SeveralOpens),
        Case::new("faults::who_contributed_and_died_is_named", &[C12], |run| {
            who_contributed_and_died_is_named::<S>(run)
        })
        .at_least(2)
        .needs(Need::SeveralOpens),
        Case::new("faults::told_while_the_first_is_away", &[C12, C13], |run| {
            told_while_the_first_is_away::<S>(run)
        })
        .at_least(3)
        .needs(Need::Processes)
        .deaths(),
    ]
}

/// A rank may leave right after a collective that it has contributed to: the others finish it.
fn who_contributed_may_leave<S: Subject>(run: &Run) -> Verdict {
    for round in 0..30 {
        let comm = run.open_seat::<S>(&run.seat(&format!("round-{round}")))?;
        let leaver = round % run.size();
        let len = [1, 100, 40_000][round % 3];
        run.at(format_args!(
            "round {round}: rank {leaver} leaves after {len} elements"
        ));
        let mut sums = vec![0; len];
        comm.allreduce(&vec![1_usize; len], &mut sums, ReduceOp::Sum)?;
        assert!(sums.iter().all(|&sum| sum == run.size()), "round {round}");
        if run.rank != leaver {
            // Late, in a call that will fail: the leaver is gone, and no other rank is to blame.
            let what = format!("round {round}, after it left");
            fails(&what, comm.barrier(), FailureKind::PeerLost, leaver);
        }
    }
    Ok(())
}

/// A rank that dies right after it has contributed may or may not fail that call. It fails the next one, at
/// once, even on ranks that learned of the death in a call that they could finish.
fn who_contributed_and_died_is_named<S: Subject>(run: &Run) -> Verdict {
    for round in 0..12 {
        let tag = format!("round-{round}");
        let comm = run.open_seat::<S>(&run.seat(&tag))?;
        let (leaver, len) = (round % run.size(), [1, 30_000, 700_000][round % 3]);
        run.at(format_args!(
            "{tag}: rank {leaver} dies after {len} elements"
        ));
        let metronome = Metronome::start();
        let mut values = vec![run.rank; len];
        comm.barrier()?;
        let result = comm.broadcast(&mut values, leaver);
        if run.rank == leaver {
            result?;
            run.post(&format!("gone-{tag}"), &clock::now().as_nanos().to_string())?;
            // Unwinding drops the communicator.
            let unwound = catch_unwind(AssertUnwindSafe(move || {
                let _comm = comm;
                panic!("the rank that is meant to panic");
            }));
            assert!(unwound.is_err());
        } else {
            if result.is_ok() {
                assert!(values.iter().all(|&value| value == leaver), "{tag}");
            } else {
                fails(&tag, result, FailureKind::PeerLost, leaver);
            }
            let entered = clock::now();
            let next = comm.barrier();
            let told = clock::now();
            fails(&tag, next, FailureKind::PeerLost, leaver);
            let since = died(run, leaver, &format!("gone-{tag}"))?.max(entered);
            in_time(since, told, S::MODEL.death_within(), &metronome);
            // No rank leaves before all have got their errors, because a departure would notify them.
            run.post(&format!("told-{tag}"), "")?;
            let others = run.others().filter(|&other| other != leaver);
            run.wait_all(others, &format!("told-{tag}"))?;
        }
    }
    Ok(())
}

/// Ranks in a collective learn of a death at once, even while rank 0 is not in one.
fn told_while_the_first_is_away<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open::<S>()?;
    comm.barrier()?;
    let victim = run.size() - 1;
    if run.rank == victim {
        return depart(run, comm, Departure::Killed, Point::Awaited);
    }
    if run.rank == 0 {
        run.post("entering", "")?;
        run.wait_all(1..victim, "told")?;
    }
    let within = S::MODEL.death_within();
    survive(
        run,
        &comm,
        Departure::Killed,
        Point::Awaited,
        victim,
        within,
    )
}
