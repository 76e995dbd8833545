//! Places: every error names the file and the line of the call, whichever path the call takes.

use std::sync::Arc;

use comm_api::{
    CommError, Communicator, CommunicatorExt, FailureKind, Place, ReduceOp, ScalarKind,
    SharedMemoryProvider, SharedRegion,
};

use super::{fails, spare, still_works};
use crate::case::{Case, Verdict};
use crate::clause::Clause::{C10, C11, C13, C15};
use crate::run::Run;
use crate::subject::Subject;

pub(super) fn cases<S: Subject>() -> Vec<Case> {
    vec![
        Case::new("places::of_refusals", &[C11], |run| {
            of_refusals(run, &run.open::<S>()?)
        }),
        Case::new("places::of_regions", &[C15], |run| {
            of_regions(run, &run.open::<S>()?)
        }),
        Case::new("places::of_what_others_refused", &[C11], |run| {
            of_what_others_refused(run, &run.open::<S>()?)
        })
        .at_least(2),
        Case::new(
            "places::of_a_failure_and_of_later_calls",
            &[C10, C13],
            |run| of_a_failure_and_of_later_calls::<S>(run),
        )
        .at_least(2),
    ]
}

/// Makes a call; returns its outcome and its line.
macro_rules! at {
    ($call:expr) => {
        (line!(), $call.map(drop))
    };
}

/// Checks that a call failed with an error that names this line.
#[track_caller]
fn says((line, result): (u32, Result<(), CommError>)) -> CommError {
    let Err(error) = result else {
        panic!("the call of line {line}: expected an error, got Ok");
    };
    let here = Place::new(file!(), line);
    assert_eq!(error.place(), Some(here), "{error}");
    let end = format!(" (at {here})");
    assert!(error.to_string().ends_with(&end), "{error}");
    error
}

/// All ranks make the same mistake, through every kind of pointer to a communicator.
fn of_refusals<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let size = comm.size();
    let object: &dyn Communicator = comm;
    let shared: Arc<&dyn Communicator> = Arc::new(object);
    let (one, mut two) = ([1.0], [0.0; 2]);
    let or = ReduceOp::BitwiseOr;
    for call in [
        at!(comm.broadcast(&mut two, size)),
        at!((&comm).broadcast(&mut two, size)),
        at!((&object).broadcast(&mut two, size)),
        at!(shared.broadcast(&mut two, size)),
        at!(object.broadcast_bytes(&mut [0; 8], 8, size)),
        at!(comm.allreduce(&one, &mut two, ReduceOp::Sum)),
        at!((&object).allreduce(&one, &mut two, ReduceOp::Sum)),
        at!(comm.allreduce_in_place(&mut two, or)),
        at!(object.allreduce_in_place_bytes(&mut [0; 8], ScalarKind::F64, or)),
        at!(comm.allgatherv(&one, &mut two, &[], &[])),
        at!((&object).allgatherv(&one, &mut two, &[], &[])),
        at!(comm.allgatherv(&[()], &mut [(); 9], &[], &[])),
        at!(comm.allgather(&one, &mut [])),
        at!(comm.allreduce_scalar(1.0, or)),
        at!(comm.broadcast_value(1.0, size)),
    ] {
        says(call);
    }
    still_works(run, comm)
}

/// Exchanges and fences of a region in the wrong phase.
fn of_regions<C: Communicator + SharedMemoryProvider>(run: &Run, comm: &C) -> Verdict {
    let mut region = comm.create_gathered_region::<u64>(1)?;
    says(at!(region.fence()));
    comm.exchange(&mut region)?;
    run.at(format_args!("exchanging in the read phase"));
    says(at!(comm.exchange(&mut region)));
    region.fence()?;
    let mut of_the_node = comm.create_shared_region::<u64>(1)?;
    says(at!(comm.exchange(&mut of_the_node)));
    of_the_node.fence()?;
    still_works(run, comm)
}

/// The errors of the others name their own lines, not that of the rank that refused.
fn of_what_others_refused<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    let wrong = run.rank == 0;
    let result = if wrong {
        at!(comm.broadcast(&mut [0], comm.size()))
    } else {
        at!(comm.broadcast(&mut [0], 0))
    };
    let error = says(result);
    if !wrong {
        let message = fails("refused by rank 0", Err(error), FailureKind::Refused, 0);
        assert!(!message.contains(file!()), "{message}");
    }
    still_works(run, comm)
}

/// After a fatal failure the error of each call names the line of the first one.
fn of_a_failure_and_of_later_calls<S: Subject>(run: &Run) -> Verdict {
    let comm = run.open::<S>()?;
    let last = run.rank == run.size() - 1;
    let spare = spare::<S>(run, &comm, "spare")?;
    spare.barrier()?;
    run.at(format_args!("calling different things"));
    let first = if last {
        at!(spare.barrier())
    } else {
        at!(spare.allreduce(&[1], &mut [0], ReduceOp::Sum))
    };
    let place = says(first).place();
    let later = spare.broadcast(&mut [0], 0);
    let later = later.expect_err("a failure for good fails every later call");
    assert_eq!(later.place(), place, "{later}");
    still_works(run, &comm)
}
