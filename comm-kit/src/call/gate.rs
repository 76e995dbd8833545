//! The life cycle of a call: which thread may enter, and what the first failure leaves behind.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use comm_api::{CommError, FailureKind, Operation, Place};

use crate::call::owner::Owner;
use crate::region::gathered::CommId;
use crate::report;
use crate::words::{self, Lost};

/// Announces to the other ranks what a [`Gate`] decides on its own.
///
/// Implemented by the part of a backend through which a rank reaches the others; [`State`](Self::State) is
/// what a call changes.
pub trait Transport {
    /// The state that one call at a time works with.
    type State;

    /// Announces that this rank refused its arguments. This takes one place in the sequence of calls, without
    /// waiting for any rank. The others get [`words::refused`] with `reason` in that call.
    fn refuse(&self, state: &mut Self::State, reason: &str);

    /// Announces that this rank is lost because one of its calls panicked. The others get
    /// [`PeerLost`](FailureKind::PeerLost) with [`Lost::PanickedInside`]. Must not panic.
    fn panicked(&self, state: &mut Self::State);
}

/// Lets calls into a communicator, one at a time.
///
/// # Contract
///
/// - A forked child gets [`CommError::InvalidCommunicator`] and sends nothing.
/// - An error states where the program made the call: every function between a method and [`enter`](Gate::enter) or
///   [`checked`](Gate::checked) is `#[track_caller]`. The first cause keeps its place.
/// - The first cause is reported to the launcher, if the launcher asked for reports; a refusal is reported
///   until the next call. See [`report`](mod@crate::report).
/// - A second thread inside gets [`Refused`](FailureKind::Refused) with this rank and takes no place in the
///   sequence.
/// - After a fatal error every call returns that first cause again.
/// - A panic inside a call is fatal: the other ranks are notified, and from then on this rank too gets
///   [`PeerLost`](FailureKind::PeerLost) with its own rank. Exception: a call that was entered while its
///   thread was already unwinding counts as returned, because a second panic cannot be distinguished from a
///   return.
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
    /// Whether the first cause is reported to the launcher.
    reports: bool,
    /// Locked with `try_lock` only: no thread waits for it.
    inside: Mutex<Inside<T::State>>,
}

#[derive(Debug)]
struct Inside<S> {
    state: S,
    past: Past,
}

/// What earlier calls left behind.
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

    /// Makes this the gate of a region: a failure leaves the communicator usable, so it is not reported to
    /// the launcher.
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

    /// Returns the id that distinguishes this communicator from all others of this process.
    #[inline]
    pub fn id(&self) -> CommId {
        self.id
    }

    /// Returns the transport to the other ranks.
    #[inline]
    pub fn transport(&self) -> &T {
        &self.transport
    }

    /// Returns the mark of the process that may use this communicator.
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
    #[track_caller]
    pub fn enter(&self, operation: Operation) -> Result<Pass<'_, T>, CommError> {
        self.enter_from(operation, Location::caller())
    }

    /// Enters a call that the program made at this place. For calls from inside a closure, whose caller is unknown.
    ///
    /// # Errors
    ///
    /// As [`enter`](Self::enter).
    #[inline]
    pub fn enter_from(
        &self,
        operation: Operation,
        at: &'static Location<'static>,
    ) -> Result<Pass<'_, T>, CommError> {
        if let Err(error) = self.owner.check() {
            return Err(error.called_at(Place::of(at)));
        }
        let mut inside = match self.inside.try_lock() {
            Ok(inside) => inside,
            Err(TryLockError::WouldBlock) => {
                return Err(words::busy(operation, self.rank).called_at(Place::of(at)));
            }
            // The panic was announced and is the first cause.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        // A single comparison on the fast path, whatever happened before.
        if !matches!(inside.past, Past::Clean) {
            inside.go_on(operation)?;
        }
        Ok(Pass {
            gate: self,
            inside,
            unwinding: std::thread::panicking(),
            at,
        })
    }

    /// Passes on the result of an argument check; if the check failed, announces to the others that this rank
    /// refuses the call.
    ///
    /// # Errors
    ///
    /// The error of the check; [`CommError::InvalidCommunicator`] in a forked child.
    #[inline]
    #[track_caller]
    pub fn checked<R>(&self, checked: Result<R, CommError>) -> Result<R, CommError> {
        match checked {
            Ok(value) => Ok(value),
            Err(error) => Err(self.reject(error)),
        }
    }

    #[cold]
    #[track_caller]
    fn reject(&self, error: CommError) -> CommError {
        if !self.owner.is_here() {
            return CommError::invalid_communicator().here();
        }
        self.refuse(&error);
        error.here()
    }

    /// Announces that this rank refused its arguments, unless the refusal has no place in the sequence:
    /// inside another call, after a fatal error, or in a forked child.
    #[cold]
    #[track_caller]
    pub fn refuse(&self, error: &CommError) {
        // The operation appears only in an error that is dropped here.
        if let Ok(mut pass) = self.enter(Operation::Other("refuse")) {
            let reason = words::reason(error);
            self.transport.refuse(&mut pass, &reason);
            pass.refused(self.rank);
        }
    }

    /// Returns transport and state, for what this rank sends when it leaves; `None` in a forked child, which
    /// must not send anything.
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

/// A call in progress; dereferences to the state.
#[derive(Debug)]
pub struct Pass<'g, T: Transport> {
    gate: &'g Gate<T>,
    inside: MutexGuard<'g, Inside<T::State>>,
    /// Whether the thread was already unwinding when it entered: a destructor that calls a collective.
    unwinding: bool,
    /// Where the program made the call.
    at: &'static Location<'static>,
}

impl<'g, T: Transport> Pass<'g, T> {
    /// Returns the transport to the other ranks.
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

    /// Returns the error with the place of the call, and keeps it as the first cause if it is fatal and there is none yet.
    #[cold]
    pub fn fail(&mut self, error: CommError) -> CommError {
        let error = error.called_at(Place::of(self.at));
        if error.is_fatal() && !self.inside.has_failed() {
            self.inside.past = Past::Failed(error.clone());
            if self.gate.reports {
                report::failed(&error);
            }
            // Last, because a subscriber may panic: the cause is stored by then.
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

    /// Records that `rank` refused this call.
    fn refused(&mut self, rank: usize) {
        if self.gate.reports
            && !self.inside.has_failed()
            && report::refused(rank, || Place::of(self.at))
        {
            self.inside.past = Past::Refused;
        }
    }

    #[cold]
    fn panicked(&mut self) {
        let rank = self.gate.rank;
        let message = words::lost(Lost::PanickedInside, None);
        let lost = CommError::failed("call", FailureKind::PeerLost, Some(rank), message)
            .called_at(Place::of(self.at));
        // A call that had already failed fatally keeps its cause, which the others know.
        if !self.inside.has_failed() {
            self.inside.past = Past::Failed(lost);
            self.gate.transport.panicked(&mut self.inside.state);
            if self.gate.reports {
                report::panicked(rank, Place::of(self.at));
            }
        }
        // After the other ranks have been notified: logging may block.
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

/// Emits an event from a destructor that may run during a panic. A second panic, in the subscriber, would
/// otherwise abort the process.
pub fn report_while_unwinding(report: impl FnOnce()) {
    // The closure only reads what it borrows.
    let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(report));
}

/// Returns the exit code for `abort(code)`: never one that a launcher reads as success, considering that only
/// the low byte counts.
#[must_use]
pub const fn exit_code(code: i32) -> i32 {
    if code % 256 == 0 { 1 } else { code }
}

#[cfg(test)]
mod tests;
