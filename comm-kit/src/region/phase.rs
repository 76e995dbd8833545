//! The phases of a shared region.

use comm_api::{CommError, Operation};

use crate::region::gathered::{CommId, Origin};
use crate::words::{self, BROKEN};

/// Tracks the phase of one handle to a region, and panics on an access that the phase does not permit.
///
/// A region begins in its write phase. A fence [closes](Self::close) the phase, synchronises with the other
/// ranks, and [opens](Self::open) the next phase. If the fence fails in between, the handle is broken.
///
/// The write phase of a [gathered](Self::gathered) region ends with an exchange instead; a fence ends only
/// its read phase.
///
/// ```
/// use comm_kit::Phases;
///
/// let mut phases = Phases::new();
/// phases.expect_write();
/// let ended = phases.close();
/// // .. all ranks meet; an early return here leaves the handle broken ..
/// phases.open(ended);
/// phases.expect_read();
/// ```
#[derive(Debug)]
pub struct Phases {
    phase: Phase,
    /// The origin of a gathered region.
    origin: Option<Origin>,
    /// The error of the exchange that broke the handle.
    cause: Option<CommError>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Write,
    Read,
    Broken,
}

/// Proves that a phase was closed on this rank; needed to open the next one.
#[derive(Debug)]
#[must_use = "without it the next phase cannot be opened"]
pub struct Ended(Phase);

impl Ended {
    /// Returns whether it was a write phase: the other ranks then read what this rank wrote.
    #[must_use]
    pub fn was_write(&self) -> bool {
        self.0 == Phase::Write
    }
}

impl Default for Phases {
    fn default() -> Self {
        Self::new()
    }
}

impl Phases {
    /// Begins with the write phase.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            phase: Phase::Write,
            origin: None,
            cause: None,
        }
    }

    /// Begins with the write phase of a gathered region.
    #[must_use]
    pub const fn gathered(origin: Origin) -> Self {
        Self {
            phase: Phase::Write,
            origin: Some(origin),
            cause: None,
        }
    }

    /// Permits `as_slice`.
    ///
    /// # Panics
    ///
    /// Outside a read phase; the message says what to do.
    #[inline]
    #[track_caller]
    pub fn expect_read(&self) {
        match self.phase {
            Phase::Read => {}
            Phase::Write if self.origin.is_some() => panic!(
                "as_slice: the region is in its write phase; call exchange() of its communicator to end it, then read"
            ),
            Phase::Write => panic!(
                "as_slice: the region is in its write phase; call fence() to end it, then read"
            ),
            Phase::Broken => panic!("as_slice: {BROKEN}"),
        }
    }

    /// Permits `as_mut_slice`.
    ///
    /// # Panics
    ///
    /// Outside a write phase; the message says what to do.
    #[inline]
    #[track_caller]
    pub fn expect_write(&self) {
        match self.phase {
            Phase::Write => {}
            Phase::Read => panic!(
                "as_mut_slice: the region is in its read phase; call fence() to end it, then write"
            ),
            Phase::Broken => panic!("as_mut_slice: {BROKEN}"),
        }
    }

    /// Checks that `rank` can end the phase with a fence. (The sequence of fences keeps the cause of a broken
    /// handle.)
    ///
    /// # Errors
    ///
    /// [`Refused`](comm_api::FailureKind::Refused) in the write phase of a gathered region: nothing was sent,
    /// and the phase continues. After a failed exchange, its cause again.
    pub fn check_fence(&self, rank: usize) -> Result<(), CommError> {
        match (&self.cause, self.origin, self.phase) {
            (Some(cause), ..) => Err(cause.again("fence")),
            (None, Some(_), Phase::Write) => Err(words::fence_before_exchange(rank)),
            _ => Ok(()),
        }
    }

    /// Checks that `communicator` can end the phase with an exchange on `rank`, and returns the number of the
    /// region.
    ///
    /// # Errors
    ///
    /// [`Refused`](comm_api::FailureKind::Refused), naming the right call: for a region that is not gathered
    /// or belongs to another communicator, in a read phase, and for a handle that a fence broke. After a
    /// failed exchange, its cause again.
    #[inline]
    pub fn check_exchange(&self, communicator: CommId, rank: usize) -> Result<u64, CommError> {
        match (self.origin, self.phase) {
            (Some(origin), Phase::Write) if origin.communicator == communicator => {
                Ok(origin.number)
            }
            _ => Err(self.not_exchangeable(communicator, rank)),
        }
    }

    #[cold]
    fn not_exchangeable(&self, communicator: CommId, rank: usize) -> CommError {
        match (&self.cause, self.origin, self.phase) {
            (_, None, _) => words::not_gathered(rank),
            (_, Some(origin), _) if origin.communicator != communicator => {
                words::foreign_region(rank)
            }
            (Some(cause), ..) => cause.again("exchange"),
            (None, _, Phase::Broken) => words::broken_region(Operation::Exchange, rank),
            (None, ..) => words::exchanged_before(rank),
        }
    }

    /// Ends the phase on this rank. The handle is broken until the next phase is opened.
    #[inline]
    pub fn close(&mut self) -> Ended {
        Ended(std::mem::replace(&mut self.phase, Phase::Broken))
    }

    /// Begins the phase after `ended`, once all ranks have closed theirs. A broken handle stays broken.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a phase that ended is followed by one other"
    )]
    #[inline]
    pub fn open(&mut self, ended: Ended) {
        self.phase = match ended.0 {
            Phase::Write => Phase::Read,
            Phase::Read => Phase::Write,
            Phase::Broken => Phase::Broken,
        };
    }

    /// Resumes the phase that was closed, because a rank refused the exchange: the phase ended on no rank.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a phase that ended is followed by one other"
    )]
    pub fn resume(&mut self, ended: Ended) {
        self.phase = ended.0;
    }

    /// Breaks the handle permanently, for this reason.
    pub fn fail(&mut self, cause: &CommError) {
        self.phase = Phase::Broken;
        self.cause.get_or_insert_with(|| cause.clone());
    }

    /// Ends the phase of memory that no other rank accesses, for a `fence` of `rank`.
    ///
    /// # Errors
    ///
    /// As [`check_fence`](Self::check_fence), and [`Refused`](comm_api::FailureKind::Refused) for a broken handle.
    pub fn fence_alone(&mut self, rank: usize) -> Result<(), CommError> {
        self.check_fence(rank)?;
        if self.phase == Phase::Broken {
            return Err(words::broken_region(Operation::Fence, rank));
        }
        let ended = self.close();
        self.open(ended);
        Ok(())
    }

    /// Ends the write phase with `exchange`, for memory that no other rank accesses. After a refusal the
    /// phase continues; a fatal failure breaks the handle.
    ///
    /// # Errors
    ///
    /// That of `exchange`.
    pub fn exchange_alone(
        &mut self,
        exchange: impl FnOnce() -> Result<(), CommError>,
    ) -> Result<(), CommError> {
        let ended = self.close();
        let result = exchange();
        match &result {
            Ok(()) => self.open(ended),
            Err(error) if error.is_fatal() => self.fail(error),
            Err(_) => self.resume(ended),
        }
        result
    }
}

#[cfg(test)]
mod tests;
