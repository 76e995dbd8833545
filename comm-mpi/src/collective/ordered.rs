//! Reductions in rank order, made of MPI exchanges and the fold that all backends share.
//!
//! | ranks, bytes | exchange | bytes a rank receives |
//! |---|---|---|
//! | two | each sends its whole buffer | n |
//! | more, small | every rank gathers all buffers and folds them | (R - 1) n |
//! | more, large | each rank gets its slice of all buffers and folds it, then all ranks gather the slices | 2 n (R - 1) / R |
//!
//! An unordered reduction receives as many bytes as the last row. Slices have equal lengths, because MPICH
//! takes many times as long to gather blocks of different lengths; the few remaining elements are handled
//! like small buffers.
//!
//! `ReduceOp::fold_into` of two operands is commutative, bit for bit: IEEE addition, multiplication, minimum
//! and maximum are, and a NaN result is canonical. So the first two operands of a fold may be swapped; later
//! ones may not.

use comm_api::bytemuck::{cast_slice, cast_slice_mut, zeroed_vec};
use comm_api::{ReduceOp, ScalarKind};

use crate::chunk::{Lists, MOST};
use crate::element::{Width, Word, by_width, with_words, words};
use crate::ranks::{Ranks, Trouble};

/// From this many gathered bytes on, a rank folds its slice instead of everything.
const SLICES_FROM: usize = 64 << 10;

/// How many bytes are exchanged in slices at a time: this bounds the memory beside the caller's buffers. Each
/// exchange is two rounds of MPI, which take milliseconds where ranks outnumber cores.
const SEGMENT: usize = 16 << 20;

/// The tag of the exchange between two ranks.
const PAIR: i32 = 1;

impl Ranks {
    /// Folds the buffers of two or more ranks, in rank order; without `send`, the input of this rank is in
    /// `recv`.
    pub(super) fn fold_in_order(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), Trouble> {
        let fold = Fold { scalar, op };
        let width = Width::of(scalar.size());
        by_width!(width, self.fold_words::<W>(scratch, send, recv, fold))
    }

    fn fold_words<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[u8]>,
        recv: &mut [u8],
        fold: Fold,
    ) -> Result<(), Trouble> {
        // Cuts are made between scalars, some of which consist of several words.
        let unit = fold.scalar.size() / size_of::<W>();
        let sliced = match self.size {
            2 => 0,
            size if recv.len().saturating_mul(size) < SLICES_FROM => 0,
            size => recv.len() / size_of::<W>() / (size * unit) * (size * unit),
        };
        let send = send.map(words::<W>);
        with_words(recv, |recv: &mut [W]| {
            let (send, rest) = match &send {
                None => (None, None),
                Some(send) => {
                    let (send, rest) = send.split_at(sliced);
                    (Some(send), Some(rest))
                }
            };
            let (recv, remains) = recv.split_at_mut(sliced);
            self.fold_slices(scratch, send, recv, fold, unit)?;
            if self.size == 2 {
                self.fold_pair(scratch, rest, remains, fold, unit)
            } else {
                self.fold_everything(scratch, rest, remains, fold)
            }
        })
    }

    /// Receives the other buffer in `recv`, or in scratch memory if `recv` holds the own input, and folds the
    /// two.
    fn fold_pair<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[W]>,
        recv: &mut [W],
        fold: Fold,
        unit: usize,
    ) -> Result<(), Trouble> {
        let other = self.mpi_rank(1 - self.rank);
        let most = MOST / unit * unit;
        let Some(send) = send else {
            for buf in recv.chunks_mut(most) {
                let theirs = room::<W>(scratch, buf.len());
                self.comm()
                    .sendrecv(buf, other, PAIR, theirs, other, PAIR)?;
                fold.into(buf, theirs)?;
            }
            return Ok(());
        };
        for (send, recv) in send.chunks(most).zip(recv.chunks_mut(most)) {
            self.comm().sendrecv(send, other, PAIR, recv, other, PAIR)?;
            fold.into(recv, send)?;
        }
        Ok(())
    }

    /// Gathers all buffers and folds them; for short buffers.
    fn fold_everything<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[W]>,
        recv: &mut [W],
        fold: Fold,
    ) -> Result<(), Trouble> {
        if recv.is_empty() {
            return Ok(());
        }
        let all = room::<W>(scratch, recv.len() * self.size);
        self.comm().allgather(send.unwrap_or(recv), all)?;
        let (first, rest) = all.split_at(recv.len());
        recv.copy_from_slice(first);
        rest.chunks_exact(recv.len())
            .try_for_each(|next| fold.into(recv, next))
    }

    /// Folds this rank's slice of all buffers and gathers the slices; `recv` divides evenly.
    fn fold_slices<W: Word>(
        &self,
        scratch: &mut Vec<u64>,
        send: Option<&[W]>,
        recv: &mut [W],
        fold: Fold,
        unit: usize,
    ) -> Result<(), Trouble> {
        let size = self.size;
        let most = (SEGMENT / size_of::<W>()).min(MOST) / (size * unit) * unit;
        let mut lists = Lists::default();
        let mut inputs = send.map(|send| send.chunks(most * size));
        for recv in recv.chunks_mut(most * size) {
            let send = inputs.as_mut().and_then(Iterator::next);
            let each = recv.len() / size;
            lists.even(size, each);
            let (counts, displs) = (&lists.counts, &lists.displs);
            let all = room::<W>(scratch, recv.len());
            let send = send.unwrap_or(recv);
            self.comm()
                .alltoallv(send, counts, displs, all, counts, displs)?;
            let (folded, rest) = all.split_at_mut(each);
            rest.chunks_exact(each)
                .try_for_each(|next| fold.into(folded, next))?;
            self.comm().allgather(folded, recv)?;
        }
        Ok(())
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
        Ok(self.op.fold_into(acc, next, self.scalar)?)
    }
}

/// Returns `len` words of scratch memory, which is kept between calls.
fn room<W: Word>(scratch: &mut Vec<u64>, len: usize) -> &mut [W] {
    let words = (len * size_of::<W>()).div_ceil(size_of::<u64>());
    if scratch.len() < words {
        // A new buffer instead of a longer one: its contents need not be preserved.
        *scratch = zeroed_vec(words);
    }
    &mut cast_slice_mut(scratch)[..len]
}
