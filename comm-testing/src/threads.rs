//! A world of threads in one line.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use crate::reference::Reference;

/// How long a rank waits for the others.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs `body` on `ranks` ranks, each a thread, and returns what they returned, in rank order.
///
/// The ranks keep the contract of every backend: ranks that call different things, a rank that drops its communicator
/// or panics, and one that does not come within a minute are errors on the others. The thread of a rank has its name:
/// `rank 2`.
///
/// # Panics
///
/// With the panic of the rank that panicked first, after all have ended.
///
/// ```
/// use comm_api::{CommError, Communicator, FailureKind};
///
/// let results = comm_testing::threads(2, |comm| match comm.rank() {
///     0 => comm.barrier(),
///     _ => Ok(()), // leaves without a word
/// });
/// let Err(CommError::CollectiveFailed { kind, rank, .. }) = &results[0] else { panic!() };
/// assert_eq!((*kind, *rank), (FailureKind::PeerLost, Some(1)));
/// ```
pub fn threads<R, F>(ranks: usize, body: F) -> Vec<R>
where
    R: Send,
    F: Fn(Reference) -> R + Sync,
{
    let first_panic: Mutex<Option<Box<dyn Any + Send>>> = Mutex::default();
    let run = |comm| {
        let result = catch_unwind(AssertUnwindSafe(|| body(comm)));
        let keep = |panic| {
            let mut first = first_panic.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(panic);
        };
        result.map_err(keep).ok()
    };
    let results: Option<Vec<R>> = thread::scope(|scope| {
        let start = |comm: Reference| {
            let name = format!("rank {}", comm_api::Communicator::rank(&comm));
            let thread = thread::Builder::new().name(name);
            thread.spawn_scoped(scope, || run(comm))
        };
        let started: Result<Vec<_>, _> = Reference::world(ranks, TIMEOUT)
            .into_iter()
            .map(start)
            .collect();
        let started = started.expect("the system starts a thread for each rank");
        let results: Vec<Option<R>> = started.into_iter().map(join).collect();
        results.into_iter().collect()
    });
    let first = first_panic.into_inner();
    match (results, first.unwrap_or_else(PoisonError::into_inner)) {
        (Some(results), _) => results,
        (None, Some(panic)) => resume_unwind(panic),
        (None, None) => unreachable!("a rank without a result panicked"),
    }
}

fn join<R>(rank: ScopedJoinHandle<'_, Option<R>>) -> Option<R> {
    // The panic was caught inside.
    rank.join().unwrap_or_default()
}
