//! The ways in which a step ends other than completion: a refusal, a departure, a failure.

use comm_api::{CommError, Operation};
use comm_kit::words::{self, Lost};
use comm_kit::{Call, Transport};

use super::arrival::{Halt, Wait};
use super::{Progress, Sequence, ShmTransport, Turn};
use crate::protocol::board::Board;
use crate::protocol::cause::Cause;
use crate::protocol::note::note_index;
use crate::protocol::sync::{AtomicU64, Ordering, leaver_fence};
use crate::protocol::{note, wait};

impl Transport for ShmTransport {
    type State = Progress;

    /// Takes one step by refusing it, without waiting for other ranks.
    fn refuse(&self, progress: &mut Progress, reason: &str) {
        progress.step += 1;
        let step = progress.step;
        note::write(self.board.note(self.rank, step), step, reason);
        note::blame(self.refusal(step), step, self.rank);
        let standing = self.board.standing(self.rank);
        // Release: a rank that sees the refusal sees the note, which rank was first, and every line before.
        standing.refused.store(step, Ordering::Release);
        self.announce();
    }

    fn panicked(&self, _: &mut Progress) {
        self.leave(Lost::PanickedInside);
    }
}

impl Sequence {
    /// Leaves the sequence and returns its board, unless this is a forked child.
    pub(crate) fn leave(&mut self) -> Option<&Board> {
        let (transport, _) = self.gate.leave()?;
        transport.leave(Lost::by_drop());
        Some(&transport.board)
    }
}

impl ShmTransport {
    /// Leaves the sequence; the others fail when they wait for a step that this rank did not take.
    pub(in crate::protocol) fn leave(&self, lost: Lost) {
        let left = &self.board.standing(self.rank).left;
        // The first reason stays; no other rank writes this word.
        if left.load(Ordering::Relaxed) == 0 {
            left.store(lost.code().into(), Ordering::Release);
            self.announce();
        }
    }

    /// Ends the sequence on every rank, and returns the cause that is stored.
    pub(in crate::protocol) fn fail(&self, cause: Cause) -> Cause {
        let cause = cause.record(&self.board.control().cause, self.board.size());
        self.announce();
        cause
    }

    /// Counts an event and wakes all ranks, which then look for it.
    pub(crate) fn announce(&self) {
        self.board.control().events.fetch_add(1, Ordering::Release);
        wait::ring_all(&self.board, self.rank);
    }

    /// Returns the word that names the first rank that refused `step`.
    fn refusal(&self, step: u64) -> &AtomicU64 {
        &self.board.control().refusals[note_index(step)]
    }

    /// Returns the error of a wait that was halted in a call at `step`.
    #[cold]
    pub(super) fn halted(&self, wait: Wait, halt: Halt, step: u64) -> CommError {
        match halt {
            Halt::Refused(rank) => {
                let word = self.refusal(wait.step);
                let first = note::blamed(word, wait.step, self.board.size());
                let rank = first.unwrap_or(rank);
                let reason = note::read(self.board.note(rank, wait.step), wait.step);
                words::refused(wait.operation, rank, reason.as_deref())
            }
            Halt::Failed(cause) => self.error(cause, wait.operation, step),
        }
    }

    /// Returns the error of a failed sequence, in a call at `step`.
    #[cold]
    pub(super) fn error(&self, cause: Cause, operation: Operation, step: u64) -> CommError {
        // C1: the caller gets its buffers back after this, and the cause is stored.
        leaver_fence(Ordering::SeqCst);
        let size = self.board.size();
        let missed = |witness: usize| {
            // Whatever another process wrote, the result names a rank of this job, or the lowest one.
            let witness = if witness < size { witness } else { 0 };
            self.board.standing(witness).missed(size)
        };
        cause.error(operation, self.policy.timeout, missed, self.calls(step))
    }

    /// Returns the calls of the ranks that arrived at `step`.
    pub(super) fn calls(&self, step: u64) -> impl Iterator<Item = (usize, Call)> {
        (0..self.board.size()).filter_map(move |rank| {
            let line = self.board.line(rank, step);
            line.shows(step)
                .then(|| (rank, Call::from_words(line.call_words())))
        })
    }

    /// Returns the lowest rank whose call differs from that of the lowest rank that arrived.
    pub(super) fn disagreement(&self, step: u64) -> Option<usize> {
        words::differing(self.calls(step)).map(|(rank, _)| rank)
    }
}

/// The ways out of a call that cannot be completed.
pub(crate) struct Exit<'t, 'a>(pub(super) &'t mut Turn<'a>);

impl Exit<'_, '_> {
    /// Fails if the sequence has failed: ranks may continue with a call that one of them has left, if the
    /// call was complete by then.
    #[cold]
    pub(crate) fn unless_failed(self) -> Result<(), CommError> {
        let transport = self.0.pass.transport();
        let Some(cause) = transport.board.cause() else {
            return Ok(());
        };
        let error = transport.error(cause, self.0.operation, self.0.step());
        Err(self.0.pass.fail(error))
    }

    /// Fails the sequence because all lines are there and differ; every rank decides this alike.
    #[cold]
    pub(super) fn mismatched(self) -> CommError {
        let rank = self.0.pass.transport().disagreement(self.0.step());
        self.differs(rank.unwrap_or(0))
    }

    /// Fails the sequence because the arguments of `rank` differ; every rank decides this alike.
    #[cold]
    pub(crate) fn differs(self, rank: usize) -> CommError {
        let transport = self.0.pass.transport();
        let cause = transport.fail(Cause::mismatch(rank));
        let error = transport.error(cause, self.0.operation, self.0.step());
        self.0.pass.fail(error)
    }
}
