//! The exchange of a gathered region: all ranks have written, all may read.
//!
//! No data is moved: the ranks only need to know that all of them have closed their write phase before any of
//! them reads. That takes one step of the communicator, in which the ranks also check that they mean the same
//! region.
//!
//! In a job with other nodes, the ranks of different nodes share no steps. The region's own lines are used
//! there, in two steps: between them, rank 0 brings what the other nodes wrote.

use comm_api::{CommData, CommError, FailureKind, check};
use comm_kit::{Call, CommId, Ended};

use super::ShmRegion;
use super::memory::Memory;
use crate::protocol::step::{Sequence, Turn};

/// Notifies ranks that fence the region that this rank will not fence it, unless the exchange succeeds or is
/// refused: the other ranks are in the read phase then, if the step was complete for them.
struct Farewell<'a>(Option<&'a mut Sequence>);

impl Farewell<'_> {
    fn not_needed(mut self) {
        self.0 = None;
    }
}

impl Drop for Farewell<'_> {
    fn drop(&mut self) {
        if let Some(sequence) = self.0.take() {
            sequence.leave();
        }
    }
}

impl<T: CommData> ShmRegion<T> {
    /// Takes one step of the communicator, `sequence`, to end the write phase.
    #[inline]
    #[track_caller]
    pub(crate) fn exchange(&mut self, sequence: &Sequence) -> Result<(), CommError> {
        let gate = sequence.gate();
        // Before the phase ends, so that a forked child leaves the handle unchanged.
        check::placed(gate.owner().check())?;
        let checked = self.memory.check_exchange(gate.id(), sequence.rank());
        let call = Call::exchange(gate.checked(checked)?);
        let farewell = Farewell(Some(&mut self.sequence));
        let mut turn = match sequence.begin(call) {
            Ok(turn) => turn,
            Err(error) if error.is_fatal() => {
                self.memory.fail(&error);
                return Err(error);
            }
            Err(error) => {
                farewell.not_needed();
                return Err(error);
            }
        };
        let ended = self.memory.close();
        turn.publish();
        match turn.meet() {
            Ok(()) => self.memory.open_after(ended, &turn),
            Err(error) if error.is_fatal() => {
                self.memory.fail(&error);
                return Err(error);
            }
            Err(error) => {
                self.memory.resume(ended, &turn);
                farewell.not_needed();
                return Err(error);
            }
        }
        farewell.not_needed();
        Ok(())
    }

    /// Checks that `communicator` can exchange the region, on `rank` of the job.
    pub(crate) fn check_exchange(
        &self,
        communicator: CommId,
        rank: usize,
    ) -> Result<u64, CommError> {
        self.memory.check_exchange(communicator, rank)
    }

    /// Breaks the handle permanently, and leaves the steps of the region.
    pub(crate) fn fail(&mut self, cause: &CommError) {
        self.memory.fail(cause);
        self.sequence.leave();
    }

    /// Ends the write phase on this node in steps of the region itself: in one, or in two if there is
    /// something to `bring` from other nodes. Between the two, rank 0 has exclusive access to the whole
    /// region.
    #[track_caller]
    pub(crate) fn exchange_in_node(
        &mut self,
        number: u64,
        bring: Option<impl FnOnce(&mut [T]) -> Result<(), CommError>>,
    ) -> Result<(), CommError> {
        // Before the phase ends, so that a forked child leaves the handle unchanged.
        check::placed(self.sequence.gate().owner().check())?;
        let ended = self.memory.close();
        match meet_in_node(&mut self.memory, &self.sequence, &ended, number, bring) {
            Ok(turn) => {
                self.memory.open_after(ended, &turn);
                Ok(())
            }
            Err(error) => {
                self.memory.fail(&error);
                Err(error)
            }
        }
    }
}

/// Takes the steps of an exchange on a node; when it returns, all ranks have met in the last one.
#[track_caller]
fn meet_in_node<'a, T: CommData>(
    memory: &mut Memory<T>,
    sequence: &'a Sequence,
    ended: &Ended,
    number: u64,
    bring: Option<impl FnOnce(&mut [T]) -> Result<(), CommError>>,
) -> Result<Turn<'a>, CommError> {
    let mut turn = sequence.begin(Call::exchange(number))?;
    turn.publish();
    let Some(bring) = bring else {
        turn.meet()?;
        return Ok(turn);
    };
    turn.meet_before(true)?;
    let brought = match turn.rank() {
        0 => memory.lend(ended, &turn, bring),
        _ => Ok(()),
    };
    turn.advance();
    turn.own_line().put_words([brought.is_err().into()]);
    turn.publish();
    let met = turn.meet();
    brought?;
    met?;
    if turn.line(0).words() == [0] {
        return Ok(turn);
    }
    Err(CommError::failed(
        "exchange",
        FailureKind::Io,
        Some(0),
        "it could not exchange with the other nodes; the error on that rank says why",
    ))
}
