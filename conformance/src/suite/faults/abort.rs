//! `abort`: this process ends with the code, and the others are notified.

use comm_api::{Communicator, FailureKind, ReduceOp};

use crate::case::{Case, Verdict};
use crate::clause::Clause::{C12, C13};
use crate::model::Need;
use crate::report::Leaving;
use crate::run::Run;
use crate::subject::Subject;
use crate::suite::fails;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("faults::abort_ends_the_process", &[C13], |run| {
            abort_ends_the_process(run, &run.open::<S>()?, 7)
        })
        .deaths(),
        Case::new("faults::abort_with_zero_ends_with_one", &[C13], |run| {
            abort_ends_the_process(run, &run.open::<S>()?, 0)
        })
        .deaths(),
        // A launcher reads only the low byte of a code, and 0 as success.
        Case::new("faults::abort_with_256_ends_with_one", &[C13], |run| {
            abort_ends_the_process(run, &run.open::<S>()?, 256)
        })
        .deaths(),
        Case::new("faults::abort_is_told", &[C12, C13], |run| {
            abort_is_told(run, &run.open::<S>()?)
        })
        .at_least(2)
        .needs(Need::Processes)
        .deaths(),
    ]
}

/// All ranks abort with the same code, so that threads of one process may take part.
fn abort_ends_the_process<C: Communicator>(run: &Run, comm: &C, code: i32) -> Verdict {
    comm.barrier()?;
    run.leaving(Leaving::Code(if code % 256 == 0 { 1 } else { code }));
    run.post("announced", "")?;
    // A process that ends early takes its other threads along, so all of them announce it first.
    run.wait_all(run.others(), "announced")?;
    comm.abort(code)
}

fn abort_is_told<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let aborts = run.size() / 2;
    comm.barrier()?;
    if run.rank == aborts {
        run.leaving(Leaving::Code(3));
        run.wait_all(run.others(), "entering")?;
        comm.abort(3);
    }
    run.post("entering", "")?;
    for round in 0..3 {
        run.at(format_args!("a call after an abort, round {round}"));
        let result = comm.allreduce(&[1.0], &mut [0.0], ReduceOp::Sum);
        let message = fails("after an abort", result, FailureKind::Aborted, aborts);
        assert_eq!(message, "it called abort(3)");
    }
    Ok(())
}
