//! The barrier: C5.

use comm_api::Communicator;

use super::nobody_leaves_early;
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C5, C6};
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("barrier::nobody_leaves_early", &[C5], |run| {
            let comm = run.open::<S>()?;
            nobody_leaves_early(run, "barrier", |_| comm.barrier())
        }),
        Case::new("barrier::thousands", &[C5, C6], |run| {
            thousands(run, &run.open::<S>()?)
        }),
    ]
}

/// Back to back, with a periodic check of how far the others are: a rank that has left barrier `n` knows that
/// all have entered it.
fn thousands<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    for round in 0..run.calls(2000) {
        if round % 200 == 0 {
            run.post(&format!("round-{round}"), "")?;
        }
        run.at(format_args!("barrier {round}"));
        comm.barrier()?;
        if round % 200 == 0 {
            for other in run.others() {
                let posted = run.posted(other, &format!("round-{round}"));
                assert!(posted.is_some(), "rank {other} is not in barrier {round}");
            }
        }
    }
    Ok(())
}
