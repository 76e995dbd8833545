//! The ranks of one MPI communicator, and whose turn it is to call MPI.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use comm_api::CommError;
use ferrompi::{Communicator, Error};

use crate::chunk::Lists;
use crate::config::MpiReduce;
use crate::entry::{Call, Entry};
use crate::error;
use crate::life::{Life, Pass};

/// A communicator that its drop does not free: freeing one is collective, and a drop waits for
/// nobody. Whoever knows that all ranks are there takes it out and drops that.
pub(crate) struct Held(ManuallyDrop<Communicator>);

impl Held {
    pub(crate) fn new(comm: Communicator) -> Arc<Self> {
        Arc::new(Self(ManuallyDrop::new(comm)))
    }

    /// Frees the communicator; collective.
    pub(crate) fn free(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

impl Deref for Held {
    type Target = Communicator;

    #[inline]
    fn deref(&self) -> &Communicator {
        &self.0
    }
}

/// What went wrong inside a collective.
#[derive(Debug)]
pub(crate) enum Trouble {
    Mpi(Error),
    Comm(CommError),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Mpi(error)
    }
}

impl From<CommError> for Trouble {
    fn from(error: CommError) -> Self {
        Self::Comm(error)
    }
}

/// What one call at a time works with.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) lists: Lists,
    pub(crate) scratch: Vec<u64>,
    entry: Option<Entry>,
}

/// This thread's turn in the communicator; over when it is dropped.
struct Turn<'a> {
    work: MutexGuard<'a, Work>,
    _pass: Pass<'a>,
}

/// The ranks of one communicator of MPI.
///
/// `Send` and `Sync` are derived, not claimed: a `ferrompi::Communicator` is both and refuses the
/// threads that MPI does not permit; all else is atomics and locks.
pub(crate) struct Ranks {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    reduce: MpiReduce,
    comm: Arc<Held>,
    /// Its lock is taken for a call and never waited for: two calls at once would match with
    /// different ones on different ranks.
    work: Mutex<Work>,
    /// The first fatal error.
    first: OnceLock<CommError>,
    life: Arc<Life>,
}

impl Ranks {
    /// Takes over a communicator; with `check` its ranks compare what they call.
    pub(crate) fn new(life: &Arc<Life>, comm: Arc<Held>, reduce: MpiReduce, check: bool) -> Self {
        let of_mpi = |number: i32| usize::try_from(number).unwrap_or(0);
        let (rank, size) = (of_mpi(comm.rank()), of_mpi(comm.size()));
        let work = Work {
            entry: (check && size > 1).then(|| Entry::new(rank, size)),
            ..Work::default()
        };
        Self {
            rank,
            size,
            reduce,
            comm,
            work: Mutex::new(work),
            first: OnceLock::new(),
            life: Arc::clone(life),
        }
    }

    #[inline]
    pub(crate) const fn reduce(&self) -> MpiReduce {
        self.reduce
    }

    #[inline]
    pub(crate) fn comm(&self) -> &Communicator {
        &self.comm
    }

    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.life
    }

    /// Returns a rank as MPI counts them: it was below `size()`, which came from MPI.
    #[inline]
    #[expect(clippy::unused_self, reason = "the bound is this communicator's size")]
    pub(crate) fn mpi_rank(&self, rank: usize) -> i32 {
        i32::try_from(rank).unwrap_or(i32::MAX)
    }

    /// Refuses a forked child, and whoever calls after a fatal error.
    #[inline]
    pub(crate) fn usable(&self, operation: &'static str) -> Result<(), CommError> {
        self.life.owner().check()?;
        match self.first.get() {
            None => Ok(()),
            Some(first) => Err(first.again(operation)),
        }
    }

    /// Takes the turn of this thread, or tells why there is none.
    #[inline]
    fn turn(&self, operation: &'static str) -> Result<Turn<'_>, CommError> {
        self.usable(operation)?;
        let work = self.alone(&self.work, operation)?;
        let pass = self.life.pass(operation, self.rank)?;
        Ok(Turn { work, _pass: pass })
    }

    /// Takes a lock without waiting: who holds it is inside a call that must not be disturbed.
    #[inline]
    pub(crate) fn alone<'a, T>(
        &self,
        lock: &'a Mutex<T>,
        operation: &'static str,
    ) -> Result<MutexGuard<'a, T>, CommError> {
        match lock.try_lock() {
            Ok(guard) => Ok(guard),
            Err(TryLockError::WouldBlock) => Err(comm_kit::words::busy(operation, self.rank)),
            // A panic inside a call leaves nothing there that the next one relies on.
            Err(TryLockError::Poisoned(poisoned)) => Ok(PoisonError::into_inner(poisoned)),
        }
    }

    /// Runs one call that the ranks do not compare.
    pub(crate) fn perform_unchecked<R>(
        &self,
        operation: &'static str,
        body: impl FnOnce(&mut Work) -> Result<R, Trouble>,
    ) -> Result<R, CommError> {
        let mut turn = self.turn(operation)?;
        body(&mut turn.work).map_err(|trouble| self.failed(operation, trouble))
    }

    /// Runs one call: its turn, the comparison where it is asked for, and what it does.
    #[inline]
    pub(crate) fn perform<R>(
        &self,
        operation: &'static str,
        call: impl FnOnce() -> Call,
        body: impl FnOnce(&mut Work) -> Result<R, Trouble>,
    ) -> Result<R, CommError> {
        let mut turn = self.turn(operation)?;
        let work = &mut *turn.work;
        let entered = match &mut work.entry {
            None => Ok(()),
            Some(entry) => entry.enter(&self.comm, operation, call()),
        };
        let result = entered.and_then(|()| body(work));
        result.map_err(|trouble| self.failed(operation, trouble))
    }

    /// Announces to the other ranks that this one refused its arguments, where they listen.
    #[cold]
    pub(crate) fn announce_refusal(&self, operation: &'static str, error: &CommError) {
        // Without a turn there is no place in the sequence to take either.
        let Ok(mut turn) = self.turn(operation) else {
            return;
        };
        if let Some(entry) = &mut turn.work.entry
            && let Err(trouble) = entry.refuse(&self.comm, error)
        {
            self.failed(operation, trouble);
        }
    }

    /// Puts trouble into the words of the contract, and keeps the first that is fatal.
    #[cold]
    pub(crate) fn failed(&self, operation: &'static str, trouble: Trouble) -> CommError {
        let error = match trouble {
            Trouble::Mpi(error) => error::mpi(operation, self.rank, &error),
            Trouble::Comm(error) => error,
        };
        if error.is_fatal() {
            tracing::warn!(rank = self.rank, %error, "the communicator is lost");
            self.first.get_or_init(|| error).again(operation)
        } else {
            error
        }
    }
}

impl Drop for Ranks {
    /// Ends the job if this rank is unwinding: the others would wait for it for ever.
    fn drop(&mut self) {
        if std::thread::panicking() && self.size > 1 && self.life.owner().is_here() {
            tracing::error!(
                rank = self.rank,
                "panicked; ending the job through MPI_Abort"
            );
            self.comm.abort(1);
        }
        // Otherwise the persistent requests of the comparison are freed, which takes nobody else,
        // where MPI permits this thread to.
        let work = self.work.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = work.entry.take()
            && !(self.life.owner().is_here() && self.life.permits_this_thread())
        {
            std::mem::forget(entry);
        }
    }
}

impl std::fmt::Debug for Ranks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ranks")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
