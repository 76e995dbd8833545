//! A world of threads in one line.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use comm_api::Communicator;

use crate::reference::Reference;

/// The default timeout of a rank that waits for the others.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs `body` on `ranks` ranks, each a thread, and returns what they returned, in rank order.
///
/// The ranks keep the contract of every backend: if ranks call different things, or a rank leaves (`body`
/// returns), panics, or does not enter a call within a minute, the others get an error. The thread of a rank
/// is named after it: `rank 2`.
///
/// # Panics
///
/// With the panic of the rank that panicked first, after all ranks have ended. (If ranks panic because
/// another one left a fence of a region, any of them may count as the first.)
///
/// ```
/// use comm_api::{CommError, Communicator, FailureKind};
///
/// let results = comm_testing::threads(2, |comm| match comm.rank() {
///     0 => comm.barrier(),
///     _ => Ok(()), // leaves
/// });
/// let Err(CommError::CollectiveFailed { kind, rank, .. }) = &results[0] else { panic!() };
/// assert_eq!((*kind, *rank), (FailureKind::PeerLost, Some(1)));
/// ```
pub fn threads<R, F>(ranks: usize, body: F) -> Vec<R>
where
    R: Send,
    F: Fn(&Reference) -> R + Sync,
{
    threads_within(TIMEOUT, ranks, body)
}

/// Runs `body` like [`threads`]; a rank waits for the others for at most `timeout`, and then gets
/// [`TimedOut`](comm_api::FailureKind::TimedOut).
///
/// # Panics
///
/// As [`threads`].
pub fn threads_within<R, F>(timeout: Duration, ranks: usize, body: F) -> Vec<R>
where
    R: Send,
    F: Fn(&Reference) -> R + Sync,
{
    let first_to_panic = OnceLock::new();
    let run = |comm: Reference| {
        catch_unwind(AssertUnwindSafe(|| {
            // Dropped in this order while a panic unwinds: the panic is recorded before the other ranks are
            // notified.
            let comm = comm;
            let _note = Note {
                rank: comm.rank(),
                first_to_panic: &first_to_panic,
            };
            body(&comm)
        }))
    };
    let results: Vec<thread::Result<R>> = thread::scope(|scope| {
        let start = |comm: Reference| {
            let thread = thread::Builder::new().name(format!("rank {}", comm.rank()));
            thread.spawn_scoped(scope, || run(comm))
        };
        let world = Reference::world(ranks, timeout).into_iter();
        let started: Result<Vec<_>, _> = world.map(start).collect();
        let started = started.expect("the system starts a thread for each rank");
        let results = started.into_iter().map(|rank| rank.join().flatten());
        results.collect()
    });
    let first = first_to_panic.get();
    let mut values = Vec::with_capacity(ranks);
    for (rank, result) in results.into_iter().enumerate() {
        match result {
            Ok(value) => values.push(value),
            Err(panic) if first.is_none_or(|first| *first == rank) => resume_unwind(panic),
            Err(_) => {}
        }
    }
    values
}

/// Records, when dropped while a panic unwinds, that its rank panicked, unless another one did before.
struct Note<'a> {
    rank: usize,
    first_to_panic: &'a OnceLock<usize>,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Another rank panicked first.
            let _ = self.first_to_panic.set(self.rank);
        }
    }
}
