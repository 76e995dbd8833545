//! A world of threads in one line.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use comm_api::Communicator;

use crate::reference::Reference;

/// How long a rank waits for the others unless a test says otherwise.
const TIMEOUT: Duration = Duration::from_mins(1);

/// Runs `body` on `ranks` ranks, each a thread, and returns what they returned, in rank order.
///
/// The ranks keep the contract of every backend: ranks that call different things, a rank that leaves (`body` returns)
/// or panics, and one that does not come within a minute are errors on the others. The thread of a rank has its name:
/// `rank 2`.
///
/// # Panics
///
/// With the panic of the rank that panicked first, after all have ended. (Of ranks that panic because another one left
/// a fence of a region, any may count as the first.)
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
    F: Fn(&Reference) -> R + Sync,
{
    threads_within(TIMEOUT, ranks, body)
}

/// Runs `body` as [`threads`] does; a rank waits for the others for as long as `timeout` says, and gets
/// [`TimedOut`](comm_api::FailureKind::TimedOut) then.
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
            // Dropped in this order while a panic unwinds: it is noted, and only then do the others learn of it.
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

/// Notes, dropped while a panic unwinds, that its rank panicked, if none did before.
struct Note<'a> {
    rank: usize,
    first_to_panic: &'a OnceLock<usize>,
}

impl Drop for Note<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            // Not the first, then.
            let _ = self.first_to_panic.set(self.rank);
        }
    }
}
