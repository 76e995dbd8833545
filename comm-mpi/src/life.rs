//! Keeps MPI in use, and controls which threads may call it.
//!
//! Everything that needs MPI holds an `Arc` of [`Life`]. When the last one is dropped, MPI may be finalized,
//! but not in that drop: finalizing waits for the other ranks, and no drop does, because they may be waiting
//! for this rank at the fence of a region. MPI is finalized when the process ends, see [`End`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use comm_api::{CommError, Operation};
use ferrompi::ThreadLevel;

use crate::end::End;
use crate::error;

/// Keeps MPI in use as long as anything holds it.
pub(crate) struct Life {
    end: &'static End,
}

impl Life {
    /// Takes MPI into use.
    pub(crate) fn begin(end: &'static End) -> Arc<Self> {
        end.enter_use();
        Arc::new(Self { end })
    }

    /// Returns the handle that ends MPI, or the job.
    pub(crate) fn end(&self) -> &'static End {
        self.end
    }

    /// Admits this thread to MPI, or returns why not.
    #[inline]
    pub(crate) fn pass(&self, operation: Operation, rank: usize) -> Result<Pass<'_>, CommError> {
        if self.end.level() == ThreadLevel::Multiple {
            return Ok(Pass(None));
        }
        self.narrow_pass(operation, rank)
    }

    #[cold]
    fn narrow_pass(&self, operation: Operation, rank: usize) -> Result<Pass<'_>, CommError> {
        if !self.end.permits_this_thread() {
            return Err(error::wrong_thread(operation, rank));
        }
        // Acquire: the calls of the previous thread happened before.
        if self.end.inside.swap(true, Ordering::Acquire) {
            return Err(error::one_at_a_time(operation, rank));
        }
        Ok(Pass(Some(&self.end.inside)))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        self.end.leave_use();
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
