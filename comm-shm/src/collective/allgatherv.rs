//! Allgatherv: every rank writes its block, then copies the blocks of the others.

use std::ops::Range;

use comm_api::{Blocks, CommError};
use comm_kit::Call;

use super::trial::Trial;
use super::{cut, keep_for, one_copy, piece_len};
use crate::protocol::line::INLINE;
use crate::protocol::route::{LargeCall, Route};
use crate::protocol::slot::{Keep, MetSlots, OwnSlot, copy_slice};
use crate::protocol::step::{Sequence, Turn};

/// The arguments were checked: every block lies within `recv`, without overflow.
#[inline]
#[track_caller]
pub(crate) fn allgatherv(
    sequence: &Sequence,
    send: &[u8],
    recv: &mut [u8],
    from: Blocks<'_>,
    elem_size: usize,
) -> Result<(), CommError> {
    let Blocks { counts, displs, .. } = from;
    let call = Call::allgatherv(counts, elem_size);
    let mut turn = sequence.begin(call)?;
    let length = |rank: usize| counts[rank].saturating_mul(elem_size);
    let start = |rank: usize| displs[rank].saturating_mul(elem_size);
    let longest = (0..counts.len()).map(length).max().unwrap_or(0);

    if longest <= INLINE {
        turn.own_line().put(send);
        turn.publish();
        turn.meet()?;
        for (other, line) in turn.lines().iter().enumerate() {
            let block = &mut recv[start(other)..][..length(other)];
            line.take(block);
        }
        return Ok(());
    }

    let keep = keep_for(recv.len());
    let route = one_copy::route_of(&mut turn, LargeCall::Allgatherv, longest);
    let mut trial = Trial::begin(&turn, LargeCall::Allgatherv, longest, route);
    let blocks = ByteBlocks {
        send: Some(send),
        length,
        start,
        keep,
    };
    blocks.gather(&mut turn, recv, route, &mut trial)
}

/// What is gathered, and where the block of each rank lies in the result.
pub(super) struct ByteBlocks<'a, L, S> {
    /// Where the block of this rank is, unless it is already in the result.
    pub(super) send: Option<&'a [u8]>,
    pub(super) length: L,
    pub(super) start: S,
    pub(super) keep: Keep,
}

impl<L: Fn(usize) -> usize, S: Fn(usize) -> usize> ByteBlocks<'_, L, S> {
    /// Gathers the blocks, by one copy or through the slots.
    pub(super) fn gather(
        &self,
        turn: &mut Turn<'_>,
        recv: &mut [u8],
        route: Route,
        trial: &mut Trial,
    ) -> Result<(), CommError> {
        if route == Route::Read && self.read(turn, recv, trial)? {
            return Ok(());
        }
        let (rank, size) = (turn.rank(), turn.size());
        let longest = self.longest(size);
        let piece = piece_len(longest, turn.board().slot_bytes());
        let pieces = longest.div_ceil(piece);
        for k in 0..pieces {
            let own = self.own(recv, rank);
            OwnSlot::of(turn).put(0, &own[cut(own.len(), piece, k)]);
            trial.publish(turn);
            // The own block is in the caches now, and the other ranks have not arrived yet.
            self.keep_own(recv, rank, cut((self.length)(rank), piece, k));
            let more = k + 1 < pieces;
            trial.meet(turn, more)?;
            for other in (0..size).filter(|&other| other != rank) {
                let part = cut((self.length)(other), piece, k);
                MetSlots::of(turn).take(
                    other,
                    0,
                    &mut recv[(self.start)(other)..][part],
                    self.keep,
                );
            }
            if more {
                turn.advance();
            }
        }
        trial.end(turn);
        Ok(())
    }

    /// Returns the bytes of the longest block.
    pub(super) fn longest(&self, size: usize) -> usize {
        (0..size).map(&self.length).max().unwrap_or(0)
    }

    /// Returns the block of this rank.
    pub(super) fn own<'b>(&'b self, recv: &'b [u8], rank: usize) -> &'b [u8] {
        let placed = || &recv[(self.start)(rank)..][..(self.length)(rank)];
        self.send.unwrap_or_else(placed)
    }

    /// Copies a part of this rank's block into the result, if it is not there yet.
    pub(super) fn keep_own(&self, recv: &mut [u8], rank: usize, part: Range<usize>) {
        if let Some(send) = self.send {
            let place = &mut recv[(self.start)(rank)..][part.clone()];
            copy_slice(&send[part], place, self.keep);
        }
    }
}
