//! The ranks of one MPI communicator, and the calls they make one at a time.

use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use comm_api::{CommError, FailureKind, Operation, check};
use comm_kit::{Call, Gate, Pass, Transport};
use ferrompi::{Communicator, Error};

use crate::chunk::Lists;
use crate::config::MpiReduce;
use crate::entry::{Entry, Rules, Scope};
use crate::error;
use crate::life::{self, Life};

/// The exit code of a job in which a rank panics: that of a Rust program whose main thread panics.
const PANICKED: i32 = 101;

/// A communicator that is not freed on drop: freeing is collective, and a drop waits for no rank. Code that
/// knows that all ranks are there takes the communicator out and drops it.
pub(crate) struct Unfreed(ManuallyDrop<Communicator>);

impl Unfreed {
    pub(crate) fn new(comm: Communicator) -> Arc<Self> {
        Arc::new(Self(ManuallyDrop::new(comm)))
    }

    /// Frees the communicator; collective.
    pub(crate) fn free(self) {
        drop(ManuallyDrop::into_inner(self.0));
    }
}

impl Deref for Unfreed {
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

/// The state that one call at a time works with.
#[derive(Default)]
pub(crate) struct Work {
    pub(crate) lists: Lists,
    pub(crate) scratch: Vec<u64>,
    /// How many gathered regions were requested; the number of the last one.
    pub(crate) gathered: u64,
    /// Its drop frees MPI requests, which not every process and thread may do.
    entry: Option<ManuallyDrop<Entry>>,
}

impl Trouble {
    /// Converts it to an error of the contract.
    #[cold]
    fn into_error(self, operation: Operation, rank: usize) -> CommError {
        match self {
            Self::Mpi(error) => error::mpi(operation, rank, &error),
            Self::Comm(error) => error,
        }
    }
}

/// The transport to the other ranks of one MPI communicator.
pub(crate) struct Members {
    comm: Arc<Unfreed>,
    life: Arc<Life>,
    alone: bool,
}

impl Members {
    /// Ends the job if this rank cannot continue: otherwise the others would wait for it endlessly.
    #[cold]
    fn give_up(&self, rank: usize) {
        if !self.alone {
            tracing::error!(rank, "panicked; ending the job through MPI_Abort");
            self.life.end().abort(PANICKED);
        }
    }
}

impl Transport for Members {
    type State = Work;

    /// Notifies the others if they can receive it: without the comparison of calls they cannot.
    fn refuse(&self, work: &mut Work, reason: &str) {
        let Some(entry) = &mut work.entry else { return };
        let sent = match self.life.pass(Operation::Other("refuse"), entry.rank()) {
            Ok(_pass) => entry.refuse(&self.comm, reason),
            Err(error) => Err(Trouble::Comm(error)),
        };
        if let Err(trouble) = sent {
            let error = trouble.into_error(Operation::Other("refuse"), entry.rank());
            tracing::warn!(%error, "cannot notify the other ranks of a refusal");
        }
    }

    fn panicked(&self, work: &mut Work) {
        self.give_up(work.entry.as_ref().map_or(0, |entry| entry.rank()));
    }
}

/// The ranks of one communicator of MPI.
///
/// `Send` and `Sync` are derived, not claimed: a `ferrompi::Communicator` is both, and rejects the threads
/// that MPI does not permit; everything else is atomics and locks.
pub(crate) struct Ranks {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    reduce: MpiReduce,
    gate: Gate<Members>,
}

impl Ranks {
    /// Takes over a communicator, whose ranks compare their calls if there are rules for it.
    pub(crate) fn new(
        life: &Arc<Life>,
        comm: Arc<Unfreed>,
        reduce: MpiReduce,
        rules: Option<Rules<'_>>,
    ) -> Self {
        let of_mpi = |number: i32| usize::try_from(number).unwrap_or(0);
        let (rank, size) = (of_mpi(comm.rank()), of_mpi(comm.size()));
        let rules = rules.filter(|_| size > 1);
        let work = Work {
            entry: rules.map(|rules| ManuallyDrop::new(Entry::new(rank, size, rules))),
            ..Work::default()
        };
        let members = Members {
            comm,
            life: Arc::clone(life),
            alone: size == 1,
        };
        Self {
            rank,
            size,
            reduce,
            gate: Gate::new(rank, members, work),
        }
    }

    #[inline]
    pub(crate) const fn reduce(&self) -> MpiReduce {
        self.reduce
    }

    #[inline]
    pub(crate) fn comm(&self) -> &Communicator {
        &self.gate.transport().comm
    }

    #[inline]
    pub(crate) fn gate(&self) -> &Gate<Members> {
        &self.gate
    }

    pub(crate) fn life(&self) -> &Arc<Life> {
        &self.gate.transport().life
    }

    /// Returns a rank as an MPI rank: it was below `size()`, which came from MPI.
    #[inline]
    #[expect(clippy::unused_self, reason = "the bound is this communicator's size")]
    pub(crate) fn mpi_rank(&self, rank: usize) -> i32 {
        i32::try_from(rank).unwrap_or(i32::MAX)
    }

    /// Runs one call: through the gate, into MPI, and after the comparison if that is enabled.
    #[inline]
    #[track_caller]
    pub(crate) fn perform<R>(
        &self,
        operation: Operation,
        call: impl FnOnce() -> Call,
        body: impl FnOnce(&mut Work) -> Result<R, Trouble>,
    ) -> Result<R, CommError> {
        let compare = |entry: &mut Entry, comm: &Communicator| {
            entry.enter(comm, operation, call(), Scope::All)
        };
        self.inside(operation, compare, body)
    }

    /// Like [`perform`](Self::perform), for a call that was already compared among other ranks.
    #[track_caller]
    pub(crate) fn perform_compared<R>(
        &self,
        operation: Operation,
        body: impl FnOnce(&mut Work) -> Result<R, Trouble>,
    ) -> Result<R, CommError> {
        self.inside(operation, |_, _| Ok(()), body)
    }

    #[inline]
    #[track_caller]
    fn inside<R>(
        &self,
        operation: Operation,
        compare: impl FnOnce(&mut Entry, &Communicator) -> Result<(), Trouble>,
        body: impl FnOnce(&mut Work) -> Result<R, Trouble>,
    ) -> Result<R, CommError> {
        let mut pass = self.gate.enter(operation)?;
        let Members { comm, life, .. } = pass.transport();
        let _inside = check::placed(life.pass(operation, self.rank))?;
        let work: &mut Work = &mut pass;
        let entered = match &mut work.entry {
            None => Ok(()),
            Some(entry) => compare(entry, comm),
        };
        match entered.and_then(|()| body(work)) {
            Ok(result) => Ok(result),
            Err(trouble) => Err(self.failed(&mut pass, operation, trouble)),
        }
    }

    /// Enters a call that has several parts, after the comparison if that is enabled. Until the call is over,
    /// no other thread enters a call of these ranks, and no other thread calls MPI while the second value is
    /// held.
    #[track_caller]
    pub(crate) fn enter(
        &self,
        operation: Operation,
        call: Call,
        scope: Scope,
    ) -> Result<(Pass<'_, Members>, life::Pass<'_>), CommError> {
        let mut pass = self.gate.enter(operation)?;
        let Members { comm, life, .. } = pass.transport();
        let inside = check::placed(life.pass(operation, self.rank))?;
        let entered = match &mut pass.entry {
            None => Ok(()),
            Some(entry) => entry.enter(comm, operation, call, scope),
        };
        match entered {
            Ok(()) => Ok((pass, inside)),
            Err(trouble) => Err(self.failed(&mut pass, operation, trouble)),
        }
    }

    #[cold]
    pub(crate) fn failed(
        &self,
        pass: &mut Pass<'_, Members>,
        operation: Operation,
        trouble: Trouble,
    ) -> CommError {
        // What the comparison finds is found by all ranks; an error of MPI, or of a wait, may concern this
        // rank alone.
        let is_own = match &trouble {
            Trouble::Mpi(_) => true,
            Trouble::Comm(error) => ends_a_wait(error),
        };
        let error = trouble.into_error(operation, self.rank);
        if is_own && error.is_fatal() {
            self.life().end().fail();
        }
        pass.fail(error)
    }
}

/// Returns whether this rank has stopped waiting while the others may still wait.
fn ends_a_wait(error: &CommError) -> bool {
    use FailureKind::{Aborted, TimedOut};
    matches!(
        error,
        CommError::CollectiveFailed {
            kind: Aborted | TimedOut,
            ..
        }
    )
}

impl Drop for Ranks {
    fn drop(&mut self) {
        let rank = self.rank;
        let Some((members, work)) = self.gate.leave() else {
            // A forked child has no MPI, and frees nothing of it.
            return;
        };
        if std::thread::panicking() {
            members.give_up(rank);
        }
        // Accepts no other thread.
        let end = members.life.end();
        if let Some(entry) = work.entry.take()
            && let Ok(_pass) = members.life.pass(Operation::Other("drop"), rank)
        {
            let mut entry = ManuallyDrop::into_inner(entry);
            // A rank that is not notified waits until its timeout.
            let _ = entry.leave(&members.comm);
            if entry.says_goodbye() {
                let comm = Arc::clone(&members.comm);
                end.before_finalizing(move || entry.drain(&comm));
            }
        }
        end.left();
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
