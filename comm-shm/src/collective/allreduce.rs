//! Allreduce: per element a left fold in rank order, regardless of which rank computes it.
//!
//! Small: every rank folds all inputs. Large: every rank folds its slice of a chunk, and all ranks copy the
//! slices; the inputs of chunk `k + 1` are sent in the same step as the results of chunk `k`. Two ranks may
//! instead read each other's inputs and results directly, half of them each.

use comm_api::{CommError, ReduceOp, ScalarKind};
use comm_kit::Call;

use super::allgatherv::ByteBlocks;
use super::trial::Trial;
use super::{cut, keep_for, one_copy};
use crate::protocol::line::INLINE;
use crate::protocol::route::{LargeCall, Route};
use crate::protocol::slot::{Keep, MetSlots, OwnSlot};
use crate::protocol::step::{Sequence, Turn};

/// Slots are never borrowed, so operands pass through a block on the stack.
const BLOCK: usize = 8 * 1024;

/// How many lines are folded at once: one at a time, selecting the fold would cost more than the fold itself.
const ROWS: usize = 8;

/// Up to this many bytes of inputs, all together, every rank folds everything.
const FOLD_ALL: usize = 64 * 1024;

/// Without `send`, the input of this rank is in `recv`.
#[track_caller]
pub(crate) fn allreduce(
    sequence: &Sequence,
    send: Option<&[u8]>,
    recv: &mut [u8],
    scalar: ScalarKind,
    op: ReduceOp,
) -> Result<(), CommError> {
    let call = Call::allreduce(recv.len(), scalar, op);
    let mut turn = sequence.begin(call)?;
    let fold = Fold { send, scalar, op };
    if recv.len() <= INLINE {
        fold.inline(&mut turn, recv)
    } else if recv.len().saturating_mul(turn.size()) <= FOLD_ALL || turn.size() == 1 {
        fold.whole(&mut turn, recv)
    } else {
        let route = one_copy::route_of(&mut turn, LargeCall::Allreduce, recv.len());
        let mut trial = Trial::begin(&turn, LargeCall::Allreduce, recv.len(), route);
        if route == Route::Read {
            return fold.halved(&mut turn, recv, &mut trial);
        }
        fold.sliced(&mut turn, recv, &mut trial)?;
        trial.end(&mut turn);
        Ok(())
    }
}

/// The contribution of one rank.
pub(super) struct Fold<'a> {
    /// Where the input is, unless the result replaces it.
    pub(super) send: Option<&'a [u8]>,
    scalar: ScalarKind,
    op: ReduceOp,
}

impl Fold<'_> {
    fn inline(&self, turn: &mut Turn<'_>, recv: &mut [u8]) -> Result<(), CommError> {
        turn.own_line().put(self.send.unwrap_or(recv));
        turn.publish();
        turn.meet()?;
        let [first, others @ ..] = turn.lines() else {
            return Ok(());
        };
        first.take(recv);
        let mut rows = [[0; INLINE]; ROWS];
        for lines in others.chunks(ROWS) {
            let rows = &mut rows[..lines.len()];
            for (line, row) in lines.iter().zip(&mut *rows) {
                line.take(row);
            }
            self.op.fold_rows(recv, rows, self.scalar)?;
        }
        Ok(())
    }

    fn whole(&self, turn: &mut Turn<'_>, recv: &mut [u8]) -> Result<(), CommError> {
        if turn.size() == 1 {
            turn.publish();
            turn.meet()?;
            if let Some(send) = self.send {
                recv.copy_from_slice(send);
            }
            return Ok(());
        }
        OwnSlot::of(turn).put(0, self.send.unwrap_or(recv));
        turn.publish();
        turn.meet()?;
        self.fold(turn, 0, 0, recv)
    }

    /// Lets each of two ranks fold one half; what they cannot read goes through the slots.
    fn halved(
        &self,
        turn: &mut Turn<'_>,
        recv: &mut [u8],
        trial: &mut Trial,
    ) -> Result<(), CommError> {
        let half = recv.len().div_ceil(2).next_multiple_of(64);
        let halves = [0, 1].map(|rank| cut(recv.len(), half, rank));
        let folded = one_copy::fold_halves(turn, self, recv, &halves, trial)?;
        for (half, folded) in halves.iter().zip(folded) {
            let rest = half.start + folded..half.end;
            if !rest.is_empty() {
                let rest_of = Fold {
                    send: self.send.map(|send| &send[rest.clone()]),
                    ..*self
                };
                rest_of.sliced(turn, &mut recv[rest], trial)?;
                turn.advance();
            }
        }
        let blocks = ByteBlocks {
            send: None,
            length: |rank: usize| halves[rank].len(),
            start: |rank: usize| halves[rank].start,
            keep: keep_for(recv.len()),
        };
        let route = if turn.copies_once() {
            Route::Read
        } else {
            Route::Slots
        };
        blocks.gather(turn, recv, route, trial)
    }

    fn sliced(
        &self,
        turn: &mut Turn<'_>,
        recv: &mut [u8],
        trial: &mut Trial,
    ) -> Result<(), CommError> {
        let (rank, size) = (turn.rank(), turn.size());
        let len = recv.len();
        let Cuts { chunk, slice } = Cuts::new(len, size, turn.board().slot_bytes());
        let chunks = len.div_ceil(chunk);
        let keep = keep_for(len);
        for k in 0..=chunks {
            let now = cut(len, chunk, k);
            if k > 0 {
                let before = cut(len, chunk, k - 1);
                let mine = cut(before.len(), slice, rank);
                OwnSlot::of(turn).put(chunk, &recv[before][mine]);
            }
            // This rank's own slice of its input is folded in place, unless the result replaces it.
            let mine = cut(now.len(), slice, rank);
            let input = &self.send.unwrap_or(recv)[now.clone()];
            let skipped = if self.send.is_some() {
                mine.clone()
            } else {
                0..0
            };
            OwnSlot::of(turn).put(0, &input[..skipped.start]);
            OwnSlot::of(turn).put(skipped.end, &input[skipped.end..]);
            trial.publish(turn);
            trial.meet(turn, k < chunks)?;

            if k > 0 {
                let before = cut(len, chunk, k - 1);
                let result = &mut recv[before];
                for other in (0..size).filter(|&other| other != rank) {
                    let part = cut(result.len(), slice, other);
                    MetSlots::of(turn).take(other, chunk, &mut result[part], keep);
                }
            }
            if k < chunks {
                let (send_at, slot_at) = (now.start + mine.start, mine.start);
                self.fold(turn, send_at, slot_at, &mut recv[now][mine])?;
                turn.advance();
            }
        }
        Ok(())
    }

    /// Folds `next` into `acc`.
    pub(super) fn fold_into(&self, acc: &mut [u8], next: &[u8]) -> Result<(), CommError> {
        self.op.fold_into(acc, next, self.scalar)
    }

    /// Folds the slots of the other ranks, from `slot_at` bytes on, with this rank's input from `send_at`
    /// bytes on. Where the result replaces the input, this rank's slot is used instead.
    fn fold(
        &self,
        turn: &Turn<'_>,
        send_at: usize,
        slot_at: usize,
        recv: &mut [u8],
    ) -> Result<(), CommError> {
        let mut next = [0; BLOCK];
        for (i, acc) in recv.chunks_mut(BLOCK).enumerate() {
            let skip = i * BLOCK;
            let own = self.send.map(|send| &send[send_at + skip..][..acc.len()]);
            for rank in 0..turn.size() {
                let next = &mut next[..acc.len()];
                match (rank, own.filter(|_| rank == turn.rank())) {
                    (0, Some(own)) => acc.copy_from_slice(own),
                    (0, None) => MetSlots::of(turn).take(0, slot_at + skip, acc, Keep::Cached),
                    (_, Some(own)) => self.fold_into(acc, own)?,
                    (_, None) => {
                        MetSlots::of(turn).take(rank, slot_at + skip, next, Keep::Cached);
                        self.fold_into(acc, next)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// How a buffer is cut: into chunks, and each chunk into one slice per rank.
struct Cuts {
    chunk: usize,
    slice: usize,
}

impl Cuts {
    /// A slot holds a chunk of inputs and a slice of results.
    fn new(len: usize, size: usize, slot_bytes: usize) -> Self {
        let most = slot_bytes / (size + 1) * size;
        let chunks = len.div_ceil(most.saturating_sub(64 * size).max(64)).max(1);
        let slice = len.div_ceil(chunks).div_ceil(size).next_multiple_of(64);
        Self {
            chunk: slice * size,
            slice,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;
    use crate::ShmConfig;
    use crate::protocol::board::Board;
    use crate::protocol::cause::{Cause, Failure};
    use crate::protocol::wait::WaitPolicy;
    use crate::segment::Segment;
    use crate::segment::layout::{self, Layout, SLOT_BYTES, SPLIT_SLOT_BYTES};

    /// A failure that makes no rank leave: the timeout of a rank expired just as the step was complete, or
    /// another thread aborts. The folded part has replaced the input, and must not be folded again.
    #[test]
    fn a_cause_that_nobody_leaves_for_spoils_no_result() {
        const LEN: usize = 1 << 20;
        let name = format!("cobre-unit-{}-halved", std::process::id());
        let (scalar, op) = (ScalarKind::U8, ReduceOp::Sum);
        let both = Barrier::new(2);
        let run = |rank: u8| {
            let config = ShmConfig::new(&name, rank.into(), 2);
            let segment = Segment::open(&config, SLOT_BYTES).expect("attaches");
            let (map, layout) = (Arc::clone(segment.map()), Layout::new(2, SLOT_BYTES));
            let board = Board::new(Arc::new(segment), map, layout::sequence(2), layout);
            // Ranks that arrive close together do not check for a cause.
            let mut policy = WaitPolicy::new(2, 2, None);
            policy.awake.eager_looks = 10_000_000;
            let sequence = Sequence::new(board, rank.into(), policy);
            let call = Call::allreduce(LEN, scalar, op);
            let mut turn = sequence.begin(call).expect("nothing has failed");
            // Elsewhere the slots are the only way.
            let linux = cfg!(all(target_os = "linux", not(comm_portable_wait)));
            assert_eq!(turn.copies_once(), linux);
            both.wait();
            if rank == 0 {
                let failure = Failure::Interrupted;
                let cause = Cause { rank: 0, failure };
                cause.record(&sequence.board().control().cause, 2);
            }
            both.wait();
            let mut recv = vec![rank + 1; LEN];
            let mut trial = Trial::begin(&turn, LargeCall::Allreduce, LEN, Route::Read);
            let send = None;
            let done = Fold { send, scalar, op }.halved(&mut turn, &mut recv, &mut trial);
            assert!(
                done.is_err() || recv == vec![3; LEN],
                "{done:?}, {} and {}",
                recv[0],
                recv[LEN - 1]
            );
        };
        thread::scope(|scope| {
            scope.spawn(|| run(0));
            scope.spawn(|| run(1));
        });
    }

    #[test]
    fn a_slot_holds_a_chunk_and_a_slice() {
        for slot_bytes in [SLOT_BYTES, SPLIT_SLOT_BYTES] {
            for size in [2, 3, 5, 8, 64, 1024] {
                for len in [1, 64, 4096, 100_000, 1 << 20, 16 << 20, usize::MAX >> 8] {
                    let Cuts { chunk, slice } = Cuts::new(len, size, slot_bytes);
                    assert!(chunk + slice <= slot_bytes, "{len} bytes, {size} ranks");
                    assert!(slice > 0 && chunk >= slice && chunk % 64 == 0);
                }
            }
        }
    }
}
