//! From `MPI_Init` to `MPI_Finalize`: once per process, on one thread.
//!
//! `ferrompi::Mpi` belongs to the thread that made it, so it stays there, in a slot. Everything
//! that needs MPI holds an `Arc` of [`Life`]. MPI is finalized as that thread ends, the main one
//! with the process, once the last of them is gone. Not in their drop: finalizing waits for the
//! other ranks, and no drop does; they may be waiting for this one, at the fence of a region.
//!
//! A thread or a process that ends while a communicator is alive does not finalize: the other
//! ranks may be in a collective with this one, and would never come. The launcher sees a rank that
//! left without a goodbye and ends the job.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ThreadId};

use comm_api::CommError;
use comm_shm::node::Owner;
use ferrompi::{Mpi, ThreadLevel};

use crate::error;

thread_local! {
    static SLOT: RefCell<Option<Slot>> = const { RefCell::new(None) };
}

/// Holds MPI on the thread that initialised it.
struct Slot {
    mpi: Option<Mpi>,
    owner: Owner,
    due: Arc<AtomicBool>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mpi = self.mpi.take();
        // Acquire: what the thread of the last communicator did with MPI happened before.
        if self.due.load(Ordering::Acquire) && self.owner.is_here() {
            drop(mpi);
        } else {
            std::mem::forget(mpi);
        }
    }
}

/// Keeps MPI initialised as long as anybody holds it.
#[derive(Debug)]
pub(crate) struct Life {
    owner: Owner,
    thread: ThreadId,
    level: ThreadLevel,
    /// A thread is inside MPI; looked at where MPI takes one at a time.
    inside: AtomicBool,
    due: Arc<AtomicBool>,
}

impl Life {
    /// Takes over MPI, on the thread that initialised it.
    pub(crate) fn begin(mpi: Mpi, owner: Owner) -> Arc<Self> {
        let due = Arc::new(AtomicBool::new(false));
        let life = Self {
            owner,
            thread: thread::current().id(),
            level: mpi.thread_level(),
            inside: AtomicBool::new(false),
            due: Arc::clone(&due),
        };
        let slot = Slot {
            mpi: Some(mpi),
            owner,
            due,
        };
        SLOT.with_borrow_mut(|place| *place = Some(slot));
        Arc::new(life)
    }

    /// Returns whose communicators these are: a forked child must not use them.
    #[inline]
    pub(crate) fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns whether MPI lets this thread call it at all.
    pub(crate) fn permits_this_thread(&self) -> bool {
        self.level >= ThreadLevel::Serialized || thread::current().id() == self.thread
    }

    /// Lets this thread into MPI, or tells why not.
    #[inline]
    pub(crate) fn pass(&self, operation: &'static str, rank: usize) -> Result<Pass<'_>, CommError> {
        if self.level == ThreadLevel::Multiple {
            return Ok(Pass(None));
        }
        self.narrow_pass(operation, rank)
    }

    #[cold]
    fn narrow_pass(&self, operation: &'static str, rank: usize) -> Result<Pass<'_>, CommError> {
        if !self.permits_this_thread() {
            return Err(error::wrong_thread(operation, rank));
        }
        // Acquire: the calls of the thread that was inside before happened before.
        if self.inside.swap(true, Ordering::Acquire) {
            return Err(error::one_at_a_time(operation, rank));
        }
        Ok(Pass(Some(&self.inside)))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Release: what this thread did with MPI happens before it is finalized.
        self.due.store(true, Ordering::Release);
    }
}

/// Permits one thread to call MPI, until it is dropped.
#[derive(Debug)]
pub(crate) struct Pass<'a>(Option<&'a AtomicBool>);

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(inside) = self.0 {
            // Release: the calls of this thread happen before those of the next.
            inside.store(false, Ordering::Release);
        }
    }
}
