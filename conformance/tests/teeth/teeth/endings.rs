//! Wrong endings: too early, never, and without a word.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use comm_api::{CommError, Communicator, ReduceOp, ScalarKind};
use comm_conformance::Seat;

use crate::bent::{Bent, Tooth};

/// Returns from a broadcast before the others have come, on the root.
///
/// What the root sends lies in a mailbox, by the number of the call, for whoever comes.
pub(crate) struct EarlyRoot;

static MAIL: Mutex<BTreeMap<usize, Vec<u8>>> = Mutex::new(BTreeMap::new());
static BELL: Condvar = Condvar::new();

impl Tooth for EarlyRoot {
    fn broadcast(
        &self,
        bent: &Bent,
        buf: &mut [u8],
        _: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let call = bent.calls.fetch_add(1, Ordering::Relaxed);
        let mut mail = MAIL.lock().unwrap_or_else(PoisonError::into_inner);
        if bent.comm.rank() == root {
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

/// Does not wait in barriers.
pub(crate) struct LeavesBarriersEarly;

impl Tooth for LeavesBarriersEarly {
    fn barrier(&self, _: &Bent) -> Result<(), CommError> {
        Ok(())
    }
}

/// Stops coming back after some calls.
pub(crate) struct Hangs;

impl Tooth for Hangs {
    fn barrier(&self, bent: &Bent) -> Result<(), CommError> {
        if bent.calls.fetch_add(1, Ordering::Relaxed) == 100 {
            loop {
                thread::park();
            }
        }
        bent.comm.barrier()
    }
}

/// Ends the process as if all were well.
pub(crate) struct Dies;

impl Tooth for Dies {
    fn allreduce(
        &self,
        bent: &Bent,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        if bent.calls.fetch_add(1, Ordering::Relaxed) == 10 {
            std::process::exit(0);
        }
        bent.comm.allreduce_bytes(send, recv, scalar, op)
    }
}

/// Comes up as many worlds of one rank, as a program does under the wrong launcher.
pub(crate) struct Singletons;

impl Tooth for Singletons {
    fn seat(&self, seat: &Seat) -> (String, usize, usize) {
        (format!("{}-{}", seat.name(), seat.rank()), 0, 1)
    }
}

/// Forgets to publish what was written last.
pub(crate) struct StaleRegion;

impl Tooth for StaleRegion {
    fn before_fence(&self, written: &mut [u8]) {
        if let Some(last) = written.last_mut() {
            *last = 0;
        }
    }
}

/// Leaves a thread behind with every communicator.
pub(crate) struct LeaksThreads;

impl Tooth for LeaksThreads {
    fn seat(&self, seat: &Seat) -> (String, usize, usize) {
        thread::spawn(|| thread::sleep(Duration::from_secs(5)));
        (seat.name().to_owned(), seat.rank(), seat.size())
    }
}
