//! The cases, clause by clause. Each is a plain function that every rank runs.

mod allgatherv;
pub(crate) mod allreduce;
mod barrier;
mod broadcast;
pub(crate) mod determinism;
pub(crate) mod elements;
mod faults;
mod gathered;
mod identity;
mod in_place;
mod mismatch;
mod places;
mod refusals;
mod regions;
mod sequences;
mod words;

use std::time::Duration;

use comm_api::{CommError, Communicator, FailureKind, Scope, SharedMemoryProvider};

use crate::case::{Case, Verdict};
use crate::model::Opens;
use crate::run::Run;
use crate::subject::{Failure, Subject};

/// Lists all cases for a backend.
pub(crate) fn cases<S: Subject>() -> Vec<Case> {
    [
        identity::cases::<S>(),
        barrier::cases::<S>(),
        broadcast::cases::<S>(),
        allreduce::cases::<S>(),
        in_place::cases::<S>(),
        allgatherv::cases::<S>(),
        sequences::cases::<S>(),
        determinism::cases::<S>(),
        regions::cases::<S>(),
        gathered::cases::<S>(),
        refusals::cases::<S>(),
        mismatch::cases::<S>(),
        places::cases::<S>(),
        faults::cases::<S>(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Lets each rank in turn enter `call` late: no rank may return before that.
///
/// The late rank posts a notice just before its call; a rank that returns checks for it.
fn nobody_leaves_early(
    run: &Run,
    what: &str,
    mut call: impl FnMut(usize) -> Result<(), CommError>,
) -> Verdict {
    for late in 0..run.size() {
        let key = format!("{what}-{late}");
        if run.rank == late {
            run.dawdle(Duration::from_millis(15));
            run.post(&key, "")?;
        }
        run.at(format_args!("{what}, rank {late} comes late"));
        call(late)?;
        assert!(
            run.posted(late, &key).is_some(),
            "{what}: returned before rank {late} had entered"
        );
    }
    Ok(())
}

/// Returns a separate communicator that may be broken: `comm` stays intact.
fn spare<S: Subject>(
    run: &Run,
    comm: &S::Comm,
    tag: &str,
) -> Result<Box<dyn Communicator>, Failure> {
    if S::MODEL.opens == Opens::Many {
        Ok(Box::new(run.open_seat::<S>(&run.seat(tag))?))
    } else {
        Ok(comm.split_local()?)
    }
}

/// Returns kind and rank of a failure to complete a collective together.
#[track_caller]
fn kind_and_rank(
    what: &str,
    result: Result<(), CommError>,
) -> (FailureKind, Option<usize>, String) {
    match result {
        Err(CommError::CollectiveFailed {
            kind,
            rank,
            message,
            ..
        }) => (kind, rank, message),
        Err(other) => panic!("{what}: expected a collective that failed, got: {other}"),
        Ok(()) => panic!("{what}: expected an error, got Ok"),
    }
}

/// Checks that a call failed in this way and named this rank; returns the message.
#[track_caller]
fn fails(what: &str, result: Result<(), CommError>, kind: FailureKind, rank: usize) -> String {
    let (actual, named, message) = kind_and_rank(what, result);
    assert_eq!((actual, named), (kind, Some(rank)), "{what}: {message}");
    message
}

/// Checks that an error is fatal to a region only.
#[track_caller]
fn ends_the_region(what: &str, result: &Result<(), CommError>) {
    let scope = result.as_ref().err().and_then(CommError::fatal_to);
    assert_eq!(scope, Some(Scope::Region), "{what}: {result:?}");
}

/// Checks that collectives work and show no data of an earlier call.
fn still_works<C: Communicator>(run: &Run, comm: &C) -> Verdict {
    run.at(format_args!("checking that the communicator still works"));
    comm.barrier()?;
    let mut ranks = vec![usize::MAX; comm.size()];
    let displs: Vec<usize> = (0..comm.size()).collect();
    comm.allgatherv(&[comm.rank()], &mut ranks, &vec![1; comm.size()], &displs)?;
    assert_eq!(ranks, displs, "a gather after an error that is not fatal");
    Ok(())
}
