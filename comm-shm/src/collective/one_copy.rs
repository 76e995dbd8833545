//! Payloads that are read where their owners have them: one copy instead of two.
//!
//! A call of this kind takes two steps:
//!
//! 1. In its line, every rank offers the address of its buffer. Once all lines are there, and the calls agree, it reads the
//!    buffers of the others; then it looks whether all ranks are still inside the call.
//! 2. In its line, every rank says whether it could read, and all were inside. This step ends the call: nobody returns, and gets
//!    its buffer back, before all have read it. If a rank could not, all know it from the same lines, and repeat the call
//!    through the slots.
//!
//! Reading is bounded by [`STREAM`], some milliseconds: ranks hear of deaths, timeouts and interrupts where they meet. It is
//! bounded by what pays, too: the kernel copies at half the speed of a loop in user space, which can write around the
//! caches, and pins each page. So it pays where it saves half of the copies, not where every slot is read by many.

use comm_api::CommError;

use super::STREAM;
use super::trial::Trial;
use crate::one_copy::MOST_RANKS;
use crate::slot::{Keep, copy_slice};
use crate::step::ways::{CHOICE, Way};
use crate::step::{Stage, Turn};

/// From how many bytes of the longest block on two ranks read each other's memory in an allgatherv. Both ranks copy at the same
/// time, so that longer ones may take less through the slots: then they [choose](crate::step::ways).
const GATHER_FROM: usize = 32 * 1024;

/// From how many bytes on two ranks do so in a broadcast, where the root would copy alone.
const BROADCAST_FROM: usize = 64 * 1024;

/// From how many bytes on more ranks do, up to [`MOST_RANKS`].
const BROADCAST_MANY_FROM: usize = 256 * 1024;

const _: () = assert!(CHOICE.end == STREAM, "beyond, reading is not bounded");

/// Returns the way of an allgatherv. All that it depends on is the same on all ranks.
pub(super) fn way_of_gathering(turn: &mut Turn<'_>, longest: usize) -> Way {
    let may_read = turn.size() == 2 && turn.copies_once();
    if may_read && CHOICE.contains(&longest) {
        turn.ways().choose(longest)
    } else if may_read && (GATHER_FROM..STREAM).contains(&longest) {
        Way::Read
    } else {
        Way::Slots
    }
}

/// Returns whether a broadcast is read. All that it depends on is the same on all ranks.
pub(super) fn broadcasts(turn: &Turn<'_>, len: usize) -> bool {
    let from = match turn.size() {
        2 => BROADCAST_FROM,
        3..=MOST_RANKS => BROADCAST_MANY_FROM,
        _ => return false,
    };
    len >= from && len < STREAM && turn.copies_once()
}

impl Turn<'_> {
    /// Publishes the first step: offers `buffer` to the others.
    fn offer(&mut self, buffer: &[u8]) {
        // Exposed: others read what lies there, as long as this rank is inside the call.
        let address = buffer.as_ptr().expose_provenance() as u64;
        let last = self.ways().to_tell();
        self.tell([address, last]);
        self.publish();
    }

    /// Reads the buffer that `rank` offers, from its byte `skip` on; returns whether that worked.
    fn read(&self, rank: usize, skip: usize, into: &mut [u8]) -> bool {
        assert!(
            self.stage() == Stage::Met,
            "the calls may not agree, or the buffer is not lent yet"
        );
        let foreign = self.board().foreign(rank);
        let address = self.told(rank)[0].checked_add(skip as u64);
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

    /// Takes the second step, which says whether this rank has read all; returns whether every rank has. If not, the next step
    /// may be written.
    fn agree(&mut self, has_read: bool) -> Result<bool, CommError> {
        let counts = has_read && self.all_are_inside();
        self.advance();
        self.tell([counts.into(), 0]);
        self.publish();
        self.meet()?;
        let all = (0..self.size()).all(|rank| self.told(rank)[0] == 1);
        if !all {
            self.copy_twice();
            self.advance();
        }
        Ok(all)
    }
}

/// What an allgatherv gathers, and where the block of each rank lies in the result.
pub(super) struct Blocks<'a, L, S> {
    pub(super) send: &'a [u8],
    pub(super) length: L,
    pub(super) start: S,
    pub(super) keep: Keep,
}

impl<L: Fn(usize) -> usize, S: Fn(usize) -> usize> Blocks<'_, L, S> {
    /// Reads the blocks of all others; returns whether every rank could. If not, the next step may be written.
    pub(super) fn read(
        &self,
        turn: &mut Turn<'_>,
        recv: &mut [u8],
        trial: &mut Trial,
    ) -> Result<bool, CommError> {
        let Self {
            send,
            length,
            start,
            keep,
        } = self;
        let (rank, size) = (turn.rank(), turn.size());
        turn.offer(send);
        // The others are not there yet.
        copy_slice(send, &mut recv[start(rank)..][..send.len()], *keep);
        trial.meet(turn, true)?;
        // Each begins with another one.
        let mut others = (1..size).map(|next| (rank + next) % size);
        let has_read =
            others.all(|other| turn.read(other, 0, &mut recv[start(other)..][..length(other)]));
        trial.end(turn);
        turn.agree(has_read)
    }
}

/// Reads the buffer of the root; returns whether every rank could. If not, the next step may be written.
pub(super) fn broadcast(
    turn: &mut Turn<'_>,
    buf: &mut [u8],
    root: usize,
) -> Result<bool, CommError> {
    let (rank, size) = (turn.rank(), turn.size());
    turn.offer(buf);
    turn.meet_before(true)?;
    let has_read = rank == root
        || if size == 2 {
            turn.read(root, 0, buf)
        } else {
            // Each begins somewhere else: two that pin the same pages at the same time hinder each other.
            let turned = buf.len() / size * ((rank + size - root) % size);
            let (head, tail) = buf.split_at_mut(turned);
            turn.read(root, turned, tail) && turn.read(root, 0, head)
        };
    turn.agree(has_read)
}
