//! The life cycle of a call: who may enter, one at a time, and what the first failure leaves.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use comm_api::{CommError, FailureKind, Operation};

use crate::call::owner::Owner;
use crate::region::gathered::CommId;
use crate::report;
use crate::words::{self, Lost};

/// Announces to the other ranks what a [`Gate`] decides on its own.
///
/// Implemented by what one rank needs to reach the others, with the part that a call changes as its
/// state.
pub trait Transport {
    /// What one call at a time works with.
    type State;

    /// Announces that this rank refused its arguments: one place in the sequence of calls, taken
    /// without waiting for anybody. The others get [`words::refused`] with `reason` in that call.
    fn refuse(&self, state: &mut Self::State, reason: &str);

    /// Announces that this rank is lost, because a call of it panicked: the others get
    /// [`PeerLost`](FailureKind::PeerLost), [`Lost::PanickedInside`]. Must not panic.
    fn panicked(&self, state: &mut Self::State);
}

/// Lets calls into a communicator, one at a time.
///
/// # Contract
///
/// - A forked child gets [`CommError::InvalidCommunicator`], and says nothing to anybody.
/// - The first cause, and a refusal until the next call, is reported to the launcher, if it asked for that: see [`report`](mod@crate::report).
/// - A second thread inside gets [`Refused`](FailureKind::Refused) with this rank; no place in the
///   sequence is used.
/// - After a fatal error every call gets that first cause again.
/// - A call that a panic leaves is fatal: the others are told, and this rank too gets
///   [`PeerLost`](FailureKind::PeerLost) with its own rank from then on. One exception: a call that
///   was entered while its thread was unwinding already. Nothing shows whether a second panic or a
///   return has ended it, so it counts as returned.
///
/// ```
/// use comm_api::{CommError, FailureKind, Operation};
/// use comm_kit::{Gate, Transport};
///
/// #[derive(Debug)]
/// struct Links;
///
/// impl Transport for Links {
///     type State = u64;
///     fn refuse(&self, sequence: &mut u64, _reason: &str) {
///         *sequence += 1; // .. and send the reason
///     }
///     fn panicked(&self, _sequence: &mut u64) {}
/// }
///
/// let gate = Gate::new(0, Links, 0);
/// let mut call = gate.enter(Operation::Barrier).unwrap();
/// *call += 1;
/// assert!(gate.enter(Operation::Barrier).is_err(), "one at a time");
/// let lost = CommError::failed("barrier", FailureKind::PeerLost, Some(1), "its process ended");
/// let error = call.fail(lost.clone());
/// assert_eq!(error, lost);
/// drop(call);
/// assert_eq!(gate.enter(Operation::Allreduce).unwrap_err(), lost.again("allreduce"));
/// ```
#[derive(Debug)]
pub struct Gate<T: Transport> {
    rank: usize,
    id: CommId,
    owner: Owner,
    transport: T,
    /// Whether the launcher hears of the first cause.
    reports: bool,
    /// Only tried, never waited for.
    inside: Mutex<Inside<T::State>>,
}

#[derive(Debug)]
struct Inside<S> {
    state: S,
    past: Past,
}

/// What the calls of before have left.
#[derive(Debug)]
enum Past {
    /// Nothing that matters.
    Clean,
    /// The launcher knows that the last call was refused.
    Refused,
    /// The first fatal error.
    Failed(CommError),
}

impl<T: Transport> Gate<T> {
    /// Guards a transport and its state, for this process and `rank`.
    pub fn new(rank: usize, transport: T, state: T::State) -> Self {
        Self {
            rank,
            id: CommId::next(),
            owner: Owner::mark(),
            transport,
            reports: true,
            inside: Mutex::new(Inside {
                state,
                past: Past::Clean,
            }),
        }
    }

    /// Makes this the gate of a region: its failure leaves the communicator usable, so the launcher does not hear of it.
    #[must_use]
    pub fn of_region(mut self) -> Self {
        self.reports = false;
        self
    }

    /// Returns the rank of this process.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns what tells this communicator from all others of this process.
    #[inline]
    pub fn id(&self) -> CommId {
        self.id
    }

    /// Returns what reaches the other ranks.
    #[inline]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the mark of the process that may use this.
    #[inline]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Enters a call.
    ///
    /// # Errors
    ///
    /// As the contract of [`Gate`] says.
    #[inline]
    pub fn enter(&self, operation: Operation) -> Result<Pass<'_, T>, CommError> {
        self.owner.check()?;
        let mut inside = match self.inside.try_lock() {
            Ok(inside) => inside,
            Err(TryLockError::WouldBlock) => return Err(words::busy(operation, self.rank)),
            // The panic was announced, and is the first cause.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        // One look, whatever the past: a call pays nothing for the refusals of others.
        if !matches!(inside.past, Past::Clean) {
            inside.go_on(operation)?;
        }
        Ok(Pass {
            gate: self,
            inside,
            unwinding: std::thread::panicking(),
        })
    }

    /// Passes on what a check of arguments found, once the others know that this rank refuses the
    /// call.
    ///
    /// # Errors
    ///
    /// The error of the check; [`CommError::InvalidCommunicator`] in a forked child.
    #[inline]
    pub fn checked<R>(&self, checked: Result<R, CommError>) -> Result<R, CommError> {
        match checked {
            Ok(value) => Ok(value),
            Err(error) => Err(self.reject(error)),
        }
    }

    #[cold]
    fn reject(&self, error: CommError) -> CommError {
        if !self.owner.is_here() {
            return CommError::invalid_communicator();
        }
        self.refuse(&error);
        error
    }

    /// Announces that this rank refused its arguments, unless it has no place in the sequence to
    /// take: inside another call, after a fatal error, in a forked child.
    #[cold]
    pub fn refuse(&self, error: &CommError) {
        // The name of the operation is only for the error that is dropped here.
        if let Ok(mut pass) = self.enter(Operation::Other("refuse")) {
            let reason = words::reason(error);
            self.transport.refuse(&mut pass, &reason);
            pass.refused(self.rank);
        }
    }

    /// Returns transport and state for the last words of this rank; `None` in a forked child, which
    /// has none.
    pub fn leave(&mut self) -> Option<(&T, &mut T::State)> {
        if !self.owner.is_here() {
            return None;
        }
        let inside = self.inside.get_mut();
        let inside = inside.unwrap_or_else(PoisonError::into_inner);
        Some((&self.transport, &mut inside.state))
    }
}

impl<S> Inside<S> {
    /// Begins another call after one that failed or was refused.
    #[cold]
    fn go_on(&mut self, operation: Operation) -> Result<(), CommError> {
        if let Past::Failed(first) = &self.past {
            return Err(first.again(operation));
        }
        report::resumed();
        self.past = Past::Clean;
        Ok(())
    }

    fn has_failed(&self) -> bool {
        matches!(self.past, Past::Failed(_))
    }
}

/// Is inside one call; dereferences to the state.
#[derive(Debug)]
pub struct Pass<'g, T: Transport> {
    gate: &'g Gate<T>,
    inside: MutexGuard<'g, Inside<T::State>>,
    /// The thread was unwinding already when it entered: a drop that calls a collective.
    unwinding: bool,
}

impl<'g, T: Transport> Pass<'g, T> {
    /// Returns what reaches the other ranks.
    #[inline]
    #[must_use]
    pub fn transport(&self) -> &'g T {
        &self.gate.transport
    }

    /// Returns the rank of this process.
    #[inline]
    #[must_use]
    pub fn rank(&self) -> usize {
        self.gate.rank
    }

    /// Passes an error on, and keeps it as the first cause if it is fatal and there is none yet.
    #[cold]
    pub fn fail(&mut self, error: CommError) -> CommError {
        if error.is_fatal() && !self.inside.has_failed() {
            self.inside.past = Past::Failed(error.clone());
            if self.gate.reports {
                report::failed(&error);
            }
            // Last: whoever listens may panic, and the cause stands by then.
            tracing::error!(rank = self.gate.rank, %error, "collective failed");
        } else if let CommError::CollectiveFailed {
            kind: FailureKind::Refused,
            rank: Some(rank),
            ..
        } = error
        {
            self.refused(rank);
        }
        error
    }

    /// Takes note that `rank` refused this call.
    fn refused(&mut self, rank: usize) {
        if self.gate.reports && !self.inside.has_failed() && report::refused(rank) {
            self.inside.past = Past::Refused;
        }
    }

    #[cold]
    fn panicked(&mut self) {
        let rank = self.gate.rank;
        let message = words::lost(Lost::PanickedInside, None);
        let lost = CommError::failed("call", FailureKind::PeerLost, Some(rank), message);
        // A call that had failed for good keeps its cause, and all know of it.
        if !self.inside.has_failed() {
            self.inside.past = Past::Failed(lost);
            self.gate.transport.panicked(&mut self.inside.state);
            if self.gate.reports {
                report::panicked(rank);
            }
        }
        // After the others were told: a log may block.
        report_while_unwinding(|| tracing::error!(rank, "panicked inside a call"));
    }
}

impl<T: Transport> Deref for Pass<'_, T> {
    type Target = T::State;

    #[inline]
    fn deref(&self) -> &T::State {
        &self.inside.state
    }
}

impl<T: Transport> DerefMut for Pass<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T::State {
        &mut self.inside.state
    }
}

impl<T: Transport> Drop for Pass<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() && !self.unwinding {
            self.panicked();
        }
    }
}

/// Reports an event from a drop that may run while a panic unwinds: if whoever listens panics too, that
/// would end the process.
pub fn report_while_unwinding(report: impl FnOnce()) {
    // What the report borrows is only read.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

/// Returns the code with which `abort(code)` exits: never one that a launcher reads as success, and
/// it reads the low byte only.
#[must_use]
pub const fn exit_code(code: i32) -> i32 {
    if code % 256 == 0 { 1 } else { code }
}

#[cfg(test)]
mod tests;
