//! The steps of a call whose payload is read directly from the memory of its owner.

use comm_api::CommError;

use crate::protocol::step::lending::all_are_inside;
use crate::protocol::step::{Stage, Turn};

/// One rank's part in such a call.
pub(super) struct Reading<'t, 'a>(&'t mut Turn<'a>);

impl<'t, 'a> Reading<'t, 'a> {
    pub(super) fn of(turn: &'t mut Turn<'a>) -> Self {
        Self(turn)
    }

    /// Publishes the step in which part `k` is read: offers `buffer` to the others.
    pub(super) fn offer_part(self, k: usize, buffer: &[u8]) {
        let turn = self.0;
        if k > 0 {
            turn.advance();
        }
        // Exposed: other ranks read the buffer as long as this rank is inside the call.
        let address = buffer.as_ptr().expose_provenance() as u64;
        let last = turn.routes().to_tell();
        turn.own_line().put_words([address, last]);
        turn.publish();
    }

    /// Reads the buffer that `rank` offers, from its byte `skip` on; returns whether that worked.
    pub(super) fn read(&self, rank: usize, skip: usize, into: &mut [u8]) -> bool {
        assert!(
            self.0.stage() == Stage::Met,
            "the calls may not agree, or the buffer is not lent yet"
        );
        let foreign = self.0.board().foreign(rank);
        let [address] = self.0.line(rank).words();
        let address = address.checked_add(skip as u64);
        let (Some(foreign), Some(address)) = (foreign, address) else {
            return false;
        };
        let read = foreign.read(address, into);
        if let Err(error) = &read {
            let bytes = into.len();
            tracing::debug!(rank, %error, bytes, "cannot read the memory of this rank");
        }
        read.is_ok()
    }

    /// Publishes a step in which every rank reports how much it has read, in any unit.
    pub(super) fn tell(self, read: usize) {
        let turn = self.0;
        turn.advance();
        turn.own_line().put_words([read as u64]);
        turn.publish();
    }

    /// Takes the second step, which reports whether this rank has read everything. Returns whether every rank
    /// has; if not, the next step may be written. `meanwhile` runs while the other ranks arrive.
    pub(super) fn agree(self, has_read: bool, meanwhile: impl FnOnce()) -> Result<bool, CommError> {
        let turn = self.0;
        let counts = has_read && all_are_inside(turn.board());
        Reading::of(turn).tell(counts.into());
        meanwhile();
        turn.meet_before(false)?;
        let all = turn.lines().iter().all(|line| line.words() == [1]);
        if !all {
            turn.copy_twice();
            turn.advance();
        }
        Ok(all)
    }
}
