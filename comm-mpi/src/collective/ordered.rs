//! Reductions in rank order, made of exchanges by MPI and the one fold.
//!
//! | ranks, bytes | exchange | bytes a rank receives |
//! |---|---|---|
//! | two | each sends all it has | n |
//! | more, small | everybody gathers everything, and folds it | (R - 1) n |
//! | more, large | each rank gets its slice from everybody, folds it, and all gather the slices | 2 n (R - 1) / R |
//!
//! The last is what an unordered reduction needs too. Large buffers go through in segments, so
//! that what is folded is still in the cache, and the memory beside the caller's is bounded.
//!
//! `fold_into` of two operands is commutative, bit for bit: IEEE addition, minimum and maximum
//! are, and a NaN comes out canonical. So the first two operands of a fold may change places;
//! later ones may not.

use comm_api::bytemuck::{cast_slice, cast_slice_mut, zeroed_vec};
use comm_api::{ReduceOp, ScalarKind, fold_into};

use crate::chunk::{Lists, MOST, slice};
use crate::element::{Width, Word, by_width, with_words, words};
use crate::ranks::{Ranks, Trouble};

/// The bytes that two ranks exchange at a time.
const PAIR_SEGMENT: usize = 256 << 10;

/// From this many gathered bytes on, a rank gets its slice instead of everything.
const SLICES_FROM: usize = 16 << 10;

/// The bytes that go through the exchange of slices at a time, per rank.
const SLICE_SEGMENT: usize = 256 << 10;

/// The tag of the exchange between two ranks.
const PAIR: i32 = 1;

impl Ranks {
    /// Folds the buffers of two or more ranks, in rank order.
    pub(super) fn fold_in_order(
        &self,
        scratch: &mut Vec<u64>,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Trouble> {
        let fold = Fold { scalar, op };
        let width = Width::of(scalar.size());
        if self.size == 2 {
            by_width!(width, self.fold_pair::<W>(send, recv, fold))
        } else if send.len().saturating_mul(self.size) < SLICES_FROM {
            by_width!(width, self.fold_everything::<W>(scratch, send, recv, fold))
        } else {
            by_width!(width, self.fold_slices::<W>(scratch, send, recv, fold))
        }
    }

    /// Receives the other's buffer in `recv` and folds the own one into it.
    fn fold_pair<W: Word>(&self, send: &[u8], recv: &mut [u8], fold: Fold) -> Result<(), Trouble> {
        let other = self.mpi_rank(1 - self.rank);
        let segment = segment::<W>(PAIR_SEGMENT);
        let send = words::<W>(send);
        with_words(recv, |recv: &mut [W]| {
            for (send, recv) in send.chunks(segment).zip(recv.chunks_mut(segment)) {
                self.comm().sendrecv(send, other, PAIR, recv, other, PAIR)?;
                fold.into(recv, send)?;
            }
            Ok(())
        })
    }

    /// Gathers all buffers and folds them.
    fn fold_everything<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: &[u8],
        recv: &mut [u8],
        fold: Fold,
    ) -> Result<(), Trouble> {
        let send = words::<W>(send);
        let all = room::<W>(scratch, send.len() * self.size);
        self.comm().allgather(&send, all)?;
        let mut blocks = all.chunks_exact(send.len()).map(cast_slice::<W, u8>);
        if let Some(first) = blocks.next() {
            recv.copy_from_slice(first);
        }
        Ok(blocks.try_for_each(|next| fold_into(recv, next, fold.scalar, fold.op))?)
    }

    /// Folds this rank's slice of everybody's buffer, segment by segment, and gathers the slices.
    fn fold_slices<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: &[u8],
        recv: &mut [u8],
        fold: Fold,
    ) -> Result<(), Trouble> {
        // Slices are cut between scalars, some of which are several words.
        let unit = fold.scalar.size() / size_of::<W>();
        let segment = segment::<W>(SLICE_SEGMENT * self.size);
        let send = words::<W>(send);
        with_words(recv, |recv: &mut [W]| {
            let mut lists = [Lists::default(), Lists::default()];
            for (send, recv) in send.chunks(segment).zip(recv.chunks_mut(segment)) {
                self.fold_segment(&mut lists, scratch, send, recv, fold, unit)?;
            }
            Ok(())
        })
    }

    fn fold_segment<W: Word>(
        &self,
        lists: &mut [Lists; 2],
        scratch: &mut Vec<u64>,
        send: &[W],
        recv: &mut [W],
        fold: Fold,
        unit: usize,
    ) -> Result<(), Trouble> {
        let (rank, size) = (self.rank, self.size);
        let part = |rank| slice(send.len() / unit, rank, size);
        let own = part(rank).len() * unit;
        let [theirs, ours] = lists;
        let parts = || (0..size).map(part);
        let (counts, displs): (Vec<_>, Vec<_>) = parts().map(|p| (p.len(), p.start)).unzip();
        theirs.fill(&counts, &displs, unit, MOST);
        ours.fill(
            &vec![own; size],
            &(0..size).map(|r| r * own).collect::<Vec<_>>(),
            1,
            MOST,
        );

        let all = room::<W>(scratch, own * size);
        self.comm().alltoallv(
            send,
            &theirs.counts,
            &theirs.displs,
            all,
            &ours.counts,
            &ours.displs,
        )?;
        let (folded, rest) = all.split_at_mut(own);
        for next in rest.chunks_exact(own.max(1)) {
            fold.into(folded, next)?;
        }
        let (counts, displs) = (&theirs.counts, &theirs.displs);
        Ok(self.comm().allgatherv(folded, recv, counts, displs)?)
    }
}

/// What one call folds, and how.
#[derive(Debug, Clone, Copy)]
struct Fold {
    scalar: ScalarKind,
    op: ReduceOp,
}

impl Fold {
    #[inline]
    fn into<W: Word>(self, acc: &mut [W], next: &[W]) -> Result<(), Trouble> {
        let (acc, next) = (cast_slice_mut(acc), cast_slice(next));
        Ok(fold_into(acc, next, self.scalar, self.op)?)
    }
}

/// Gives the words in a segment of `bytes`: whole scalars, and no more than MPI takes.
fn segment<W: Word>(bytes: usize) -> usize {
    let most = MOST / 8 * 8;
    (bytes / size_of::<W>()).min(most)
}

/// Gives `len` words of room; kept from call to call, and never larger than a segment of all ranks.
fn room<W: Word>(scratch: &mut Vec<u64>, len: usize) -> &mut [W] {
    // At least one word: an empty vector has no address of its own.
    let words = (len * size_of::<W>()).div_ceil(size_of::<u64>()).max(1);
    if scratch.len() < words {
        // A new one instead of a longer one: there is nothing in it to keep.
        *scratch = zeroed_vec(words);
    }
    &mut cast_slice_mut(scratch)[..len]
}
