//! The ways out of a step other than its completion: a refusal, a departure, a failure.

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

    /// Takes one step by refusing it, without waiting for anybody.
    fn refuse(&self, progress: &mut Progress, reason: &str) {
        progress.step += 1;
        let step = progress.step;
        note::write(self.board.note(self.rank, step), step, reason);
        note::blame(self.refusal(step), step, self.rank);
        let standing = self.board.standing(self.rank);
        // Release: whoever sees the refusal sees the note, who was first, and every line before.
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
    /// Leaves the sequence; the others fail when they wait for a step this rank did not take.
    pub(in crate::protocol) fn leave(&self, lost: Lost) {
        let left = &self.board.standing(self.rank).left;
        // The first reason stands; nobody else writes this word.
        if left.load(Ordering::Relaxed) == 0 {
            left.store(lost.code().into(), Ordering::Release);
            self.announce();
        }
    }

    /// Ends the sequence for every rank, and returns the cause that stands.
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

    /// Returns the word that names the rank that refused `step` first.
    fn refusal(&self, step: u64) -> &AtomicU64 {
        &self.board.control().refusals[note_index(step)]
    }

    /// Returns the error of a wait that was halted in a call that is at `step`.
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

    /// Returns the error of a sequence that failed, in a call that is at `step`.
    #[cold]
    pub(super) fn error(&self, cause: Cause, operation: Operation, step: u64) -> CommError {
        // C1: the caller gets its buffers back after this, and the cause stands.
        leaver_fence(Ordering::SeqCst);
        let size = self.board.size();
        let missed = |witness: usize| {
            // What another process wrote names a rank of this job, or the lowest.
            let witness = if witness < size { witness } else { 0 };
            self.board.standing(witness).missed(size)
        };
        cause.error(operation, self.policy.timeout, missed, self.calls(step))
    }

    /// Returns what the ranks that came to `step` called.
    pub(super) fn calls(&self, step: u64) -> impl Iterator<Item = (usize, Call)> {
        (0..self.board.size()).filter_map(move |rank| {
            let line = self.board.line(rank, step);
            line.shows(step)
                .then(|| (rank, Call::from_words(line.call_words())))
        })
    }

    /// Returns the lowest rank whose call differs from that of the lowest rank that came.
    pub(super) fn disagreement(&self, step: u64) -> Option<usize> {
        words::differing(self.calls(step)).map(|(rank, _)| rank)
    }
}

/// The ways out of a call that cannot be completed.
pub(crate) struct Exit<'t, 'a>(pub(super) &'t mut Turn<'a>);

impl Exit<'_, '_> {
    /// Fails if the sequence has: ranks may go on with a call although one of them gave it up, if it was complete by then.
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
