//! Wrong endings: too early, never, and silent ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use comm_api::{CommError, Communicator, FailureKind, ReduceOp, ScalarKind};
use comm_conformance::Seat;

use comm_conformance::mutant::Mutation;
use comm_conformance::reference::Reference;
use comm_kit::interrupt;

/// Returns from a broadcast before the others have entered it, on the root.
///
/// The data of the root lies in a mailbox, by the number of the call, until the other ranks fetch it.
#[derive(Default)]
pub(crate) struct EarlyRoot(AtomicUsize);

static MAIL: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::new(BTreeMap::new());
static BELL: Condvar = Condvar::new();

impl Mutation<Reference> for EarlyRoot {
    fn broadcast(
        &self,
        comm: &Reference,
        buf: &mut [u8],
        _: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let call = self.0.fetch_add(1, Ordering::Relaxed);
        let mut mail = MAIL.lock().unwrap_or_else(PoisonError::into_inner);
        if comm.rank() == root {
            mail.insert(call, buf.to_vec());
            BELL.notify_all();
            return Ok(());
        }
        while !mail.contains_key(&call) {
            mail = BELL.wait(mail).unwrap_or_else(PoisonError::into_inner);
        }
        buf.copy_from_slice(&mail[&call]);
        Ok(())
    }
}

/// Reports a failed fence as if the communicator had failed.
pub(crate) struct EndsAllWithARegion;

impl Mutation<Reference> for EndsAllWithARegion {
    fn fence_error(&self, error: CommError) -> CommError {
        error.again("barrier")
    }
}

/// Does not wait in barriers.
pub(crate) struct LeavesBarriersEarly;

impl Mutation<Reference> for LeavesBarriersEarly {
    fn barrier(&self, _: &Reference) -> Result<(), CommError> {
        Ok(())
    }
}

/// Stops returning after some calls.
#[derive(Default)]
pub(crate) struct Hangs(AtomicUsize);

impl Mutation<Reference> for Hangs {
    fn barrier(&self, comm: &Reference) -> Result<(), CommError> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 100 {
            loop {
                thread::park();
            }
        }
        comm.barrier()
    }
}

/// Ends the process as if it had succeeded.
#[derive(Default)]
pub(crate) struct Dies(AtomicUsize);

impl Mutation<Reference> for Dies {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        if self.0.fetch_add(1, Ordering::Relaxed) == 10 {
            std::process::exit(0);
        }
        comm.allreduce_bytes(send, recv, scalar, op)
    }
}

/// Starts as many worlds of one rank, as a program does under the wrong launcher.
pub(crate) struct Singletons;

impl Mutation<Reference> for Singletons {
    fn seat(&self, seat: Seat) -> Seat {
        let name = format!("{}-{}", seat.name(), seat.rank());
        seat.taken_as(name, 0, 1)
    }
}

/// Forgets to publish what was written last.
pub(crate) struct StaleRegion;

impl Mutation<Reference> for StaleRegion {
    fn before_fence(&self, written: &mut [u8]) {
        if let Some(last) = written.last_mut() {
            *last = 0;
        }
    }
}

/// Never frees the memory of a region.
pub(crate) struct LeaksRegions;

impl Mutation<Reference> for LeaksRegions {
    fn before_fence(&self, written: &mut [u8]) {
        Box::leak(written.to_vec().into_boxed_slice());
    }
}

/// Does not time out on a rank that never enters a fence, for a long time.
pub(crate) struct WaitsOnInFences;

impl Mutation<Reference> for WaitsOnInFences {
    fn fence_error(&self, error: CommError) -> CommError {
        thread::sleep(Duration::from_secs(2));
        error
    }
}

/// Reports a loss late, and keeps the processors busy until then, as if the machine were.
pub(crate) struct TellsLateAndSpins;

impl Mutation<Reference> for TellsLateAndSpins {
    fn error(&self, _: &Reference, error: CommError) -> CommError {
        let start = Instant::now();
        while start.elapsed() < Duration::from_millis(700) {
            std::hint::spin_loop();
        }
        error
    }
}

/// Leaves a thread behind with every communicator.
pub(crate) struct LeaksThreads;

impl Mutation<Reference> for LeaksThreads {
    fn seat(&self, seat: Seat) -> Seat {
        thread::spawn(|| thread::sleep(Duration::from_secs(5)));
        seat
    }
}

/// Times out by a clock that runs while the job is suspended.
pub(crate) struct CountsSuspendedTime;

impl Mutation<Reference> for CountsSuspendedTime {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let start = Instant::now();
        comm.allreduce_bytes(send, recv, scalar, op)?;
        if start.elapsed() < Duration::from_millis(2500) {
            return Ok(());
        }
        let (kind, message) = (FailureKind::TimedOut, "late, by the clock on the wall");
        Err(CommError::failed("allreduce", kind, None, message))
    }
}

/// Times out by a clock that mistakes a suspension of less than a second for a busy machine.
pub(crate) struct CountsShortSuspensions;

impl Mutation<Reference> for CountsShortSuspensions {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        let done = AtomicBool::new(false);
        let (result, late) = thread::scope(|scope| {
            let late = scope.spawn(|| lateness(&done));
            let result = comm.allreduce_bytes(send, recv, scalar, op);
            done.store(true, Ordering::Relaxed);
            (result, late.join())
        });
        result?;
        if late.is_ok_and(|late| late < Duration::from_secs(1)) {
            return Ok(());
        }
        let (kind, message) = (FailureKind::TimedOut, "late, by short suspensions");
        Err(CommError::failed("allreduce", kind, None, message))
    }
}

/// Returns by how much sleeps took too long until all is `done`, ignoring those that took a second too long.
fn lateness(done: &AtomicBool) -> Duration {
    let (planned, mut late) = (Duration::from_millis(2), Duration::ZERO);
    while !done.load(Ordering::Relaxed) {
        let start = Instant::now();
        thread::sleep(planned);
        let over = start.elapsed().saturating_sub(planned);
        if over < Duration::from_secs(1) {
            late += over;
        }
    }
    late
}

/// Never checks whether a call should end.
pub(crate) struct CannotBeInterrupted;

impl Mutation<Reference> for CannotBeInterrupted {
    fn allreduce(
        &self,
        comm: &Reference,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        interrupt::clear_hook();
        comm.allreduce_bytes(send, recv, scalar, op)
    }
}

/// Treats a call that panicked on this rank as finished.
pub(crate) struct GoesOnAfterAPanic;

impl Mutation<Reference> for GoesOnAfterAPanic {
    fn barrier(&self, comm: &Reference) -> Result<(), CommError> {
        match comm.barrier() {
            Err(CommError::CollectiveFailed {
                rank: Some(rank), ..
            }) if rank == comm.rank() => Ok(()),
            result => result,
        }
    }
}
