//! Payloads that are read directly from the memory of their owners: one copy instead of two.
//!
//! A call of this kind takes two steps:
//!
//! 1. In its line, every rank offers the address of its buffer. Once all lines are there and the calls agree,
//!    it reads the buffers of the others, and then checks that all ranks are still inside the call.
//! 2. In its line, every rank reports whether it could read the buffers while all ranks were inside. This
//!    step ends the call: no rank returns, and gets its buffer back, before all have read it. If a rank could
//!    not read, all of them learn that from the same lines, and repeat the call through the slots.
//!
//! An allreduce takes the two steps twice: first each rank reads and folds its half, then it reads the half
//! of the other rank.
//!
//! More than [`PART`] is read in parts, with a step before each: ranks notice deaths, timeouts and interrupts
//! when they meet. The kernel copies at half the speed of a loop in user space, which can write around the
//! caches, and it pins each page. Direct reading is therefore faster only where it saves half of the copies,
//! not where many ranks read the same slot.

use std::ops::Range;

use comm_api::CommError;

use super::allgatherv::ByteBlocks;
use super::allreduce::Fold;
use super::cut;
use super::reading::Reading;
use super::trial::{Trial, has_choice};
use crate::one_copy::MOST_RANKS;
use crate::protocol::route::{LargeCall, Route};
use crate::protocol::slot::{Keep, copy_slice};
use crate::protocol::step::Turn;
use crate::protocol::step::lending::all_are_inside;

/// From how many bytes on three ranks read each other's memory in a broadcast, where otherwise only the root
/// would copy. Two ranks [choose](crate::protocol::route).
const BROADCAST_FROM: usize = 256 * 1024;

/// How many bytes of an allreduce are read before they are folded: few enough to be still in the caches.
const BLOCK: usize = 64 * 1024;

/// How many bytes of its own block a rank copies after it has read the others: as long as ranks take to see
/// each other in a step.
const LATE: usize = 16 * 1024;

/// The maximum number of bytes that a rank reads between two steps.
const PART: usize = 8 * 1024 * 1024;

/// Returns the route of a call whose longest block has `len` bytes. All ranks decide alike, because
/// everything it depends on is the same on all of them.
pub(super) fn route_of(turn: &mut Turn<'_>, call: LargeCall, len: usize) -> Route {
    let more_ranks = 3..=MOST_RANKS;
    if has_choice(turn, call, len) {
        turn.routes().choose(call, len)
    } else if call == LargeCall::Broadcast
        && more_ranks.contains(&turn.size())
        && (BROADCAST_FROM..PART).contains(&len)
        && turn.copies_once()
    {
        Route::Read
    } else {
        Route::Slots
    }
}

impl<L: Fn(usize) -> usize, S: Fn(usize) -> usize> ByteBlocks<'_, L, S> {
    /// Reads the blocks of all other ranks; returns whether every rank could. If not, the next step may be
    /// written.
    pub(super) fn read(
        &self,
        turn: &mut Turn<'_>,
        recv: &mut [u8],
        trial: &mut Trial,
    ) -> Result<bool, CommError> {
        let (rank, size) = (turn.rank(), turn.size());
        let (own, longest) = ((self.length)(rank), self.longest(size));
        // In both steps the other ranks have not arrived yet: there is work to do meanwhile.
        let early = own.saturating_sub(LATE);
        let mut has_read = true;
        for k in 0..longest.div_ceil(PART) {
            Reading::of(turn).offer_part(k, self.own(recv, rank));
            self.keep_own(recv, rank, cut(early, PART, k));
            trial.meet(turn, true)?;
            // Each rank begins with a different one.
            let mut others = (1..size).map(|next| (rank + next) % size);
            has_read = has_read
                && others.all(|other| {
                    let part = cut((self.length)(other), PART, k);
                    Reading::of(turn).read(
                        other,
                        part.start,
                        &mut recv[(self.start)(other)..][part],
                    )
                });
        }
        let done = Reading::of(turn).agree(has_read, || self.keep_own(recv, rank, early..own))?;
        trial.end(turn);
        Ok(done)
    }
}

/// Reads the buffer of the root; returns whether every rank could. If not, the next step may be written.
pub(super) fn broadcast(
    turn: &mut Turn<'_>,
    buf: &mut [u8],
    root: usize,
    trial: &mut Trial,
) -> Result<bool, CommError> {
    let (rank, size) = (turn.rank(), turn.size());
    let mut has_read = true;
    for k in 0..buf.len().div_ceil(PART) {
        Reading::of(turn).offer_part(k, buf);
        trial.meet(turn, true)?;
        let part = cut(buf.len(), PART, k);
        let (skip, part) = (part.start, &mut buf[part]);
        has_read = has_read
            && (rank == root || {
                // With more than one reader, each begins at a different offset: two readers that pin the same
                // pages at the same time slow each other down.
                let turned = match size {
                    2 => 0,
                    _ => part.len() / size * ((rank + size - root) % size),
                };
                let (head, tail) = part.split_at_mut(turned);
                Reading::of(turn).read(root, skip + turned, tail)
                    && (head.is_empty() || Reading::of(turn).read(root, skip, head))
            });
    }
    let done = Reading::of(turn).agree(has_read, || ())?;
    trial.end(turn);
    Ok(done)
}

/// Folds this rank's half of the inputs of two ranks into that half of `recv`. Returns how many bytes of each
/// half are folded: fewer than the half if a rank could not read the other one. The next step may be written.
///
/// The rest is still intact, even where the result replaces the input: a rank writes only its own half.
pub(super) fn fold_halves(
    turn: &mut Turn<'_>,
    fold: &Fold<'_>,
    recv: &mut [u8],
    halves: &[Range<usize>; 2],
    trial: &mut Trial,
) -> Result<[usize; 2], CommError> {
    let (rank, other) = (turn.rank(), 1 - turn.rank());
    let mine = halves[rank].clone();
    let mut block = vec![0; BLOCK];
    let mut folded = 0;
    for k in 0..halves[0].len().div_ceil(PART) {
        Reading::of(turn).offer_part(k, fold.send.unwrap_or(recv));
        trial.meet(turn, true)?;
        let part = cut(mine.len(), PART, k);
        if folded < part.start {
            continue;
        }
        for at in part.step_by(BLOCK) {
            let place = mine.start + at..mine.end.min(mine.start + at + BLOCK);
            let block = &mut block[..place.len()];
            if !Reading::of(turn).read(other, place.start, block) {
                break;
            }
            // In either order two operands give the same bits.
            fold.fold_into(block, &fold.send.unwrap_or(recv)[place.clone()])?;
            // This route is taken where processors are far apart: the other rank reads faster from memory
            // than from this rank's caches.
            copy_slice(block, &mut recv[place], Keep::Streamed);
            folded += block.len();
        }
    }
    if !all_are_inside(turn.board()) {
        // The data that was read may be invalid, and the data that it was folded into may be gone: the call
        // cannot be repeated. A rank that left without a cause does not continue, so no rank does.
        turn.exit().unless_failed()?;
        folded = 0;
    }
    Reading::of(turn).tell(folded);
    turn.meet_before(true)?;
    // The other rank is not trusted: whatever it reports, the folded part lies within its half and ends
    // between two elements.
    let folded = [0, 1].map(|rank| {
        let told = usize::try_from(turn.line(rank).words::<1>()[0]).unwrap_or(0);
        let len = halves[rank].len();
        if told >= len { len } else { told / 64 * 64 }
    });
    if folded != halves.each_ref().map(Range::len) {
        turn.copy_twice();
    }
    turn.advance();
    Ok(folded)
}
