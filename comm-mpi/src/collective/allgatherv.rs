//! Allgatherv: every rank gets the block of every rank.

use comm_api::Blocks;
use comm_api::bytemuck::zeroed_vec;
use ferrompi::Error;

use crate::chunk::{Lists, MOST, Route};
use crate::element::{Width, Word, by_width, with_words, words};
use crate::ranks::Ranks;

/// The arguments of an `allgatherv`, checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ByteBlocks<'a> {
    pub(crate) counts: &'a [usize],
    pub(crate) displs: &'a [usize],
    pub(crate) elem_size: usize,
}

impl<'a> ByteBlocks<'a> {
    pub(crate) const fn new(from: Blocks<'a>, elem_size: usize) -> Self {
        let Blocks { counts, displs, .. } = from;
        Self {
            counts,
            displs,
            elem_size,
        }
    }
}

impl Ranks {
    /// Gathers the blocks of all ranks.
    #[inline]
    pub(crate) fn allgatherv(
        &self,
        lists: &mut Lists,
        send: &[u8],
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Error> {
        if self.size == 1 {
            let start = blocks.displs[0] * blocks.elem_size;
            recv[start..start + send.len()].copy_from_slice(send);
            return Ok(());
        }
        let width = Width::of(blocks.elem_size);
        by_width!(width, self.gather_as::<W>(lists, send, recv, blocks))
    }

    #[inline]
    fn gather_as<W: Word>(
        &self,
        lists: &mut Lists,
        send: &[u8],
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Error> {
        let scale = blocks.elem_size / size_of::<W>();
        let route = lists.fill(blocks.counts, blocks.displs, scale, MOST);
        if route == Route::Nothing {
            return Ok(());
        }
        let send = words::<W>(send);
        with_words(recv, |recv: &mut [W]| match route {
            Route::Whole if lists.placed => {
                let (counts, displs) = (&lists.counts, &lists.displs);
                self.comm().allgatherv(&send, recv, counts, displs)
            }
            Route::Whole => self.gather_aside(lists, &send, recv, blocks, scale),
            Route::Nothing | Route::Pieces => self.gather_in_pieces(&send, recv, blocks, scale),
        })
    }

    /// Gathers the blocks end to end, then copies them to the displacements of this rank, which exceed the
    /// range of MPI.
    #[cold]
    fn gather_aside<W: Word>(
        &self,
        lists: &mut Lists,
        send: &[W],
        recv: &mut [W],
        blocks: ByteBlocks<'_>,
        scale: usize,
    ) -> Result<(), Error> {
        lists.pack();
        let mut packed = zeroed_vec(lists.total);
        let (counts, displs) = (&lists.counts, &lists.displs);
        self.comm().allgatherv(send, &mut packed, counts, displs)?;
        let mut rest = packed.as_slice();
        for (&count, &displ) in blocks.counts.iter().zip(blocks.displs) {
            let (block, others) = rest.split_at(count * scale);
            recv[displ * scale..][..block.len()].copy_from_slice(block);
            rest = others;
        }
        Ok(())
    }

    /// Broadcasts block by block, each in pieces: the words exceed what one call can count.
    #[cold]
    fn gather_in_pieces<W: Word>(
        &self,
        send: &[W],
        recv: &mut [W],
        blocks: ByteBlocks<'_>,
        scale: usize,
    ) -> Result<(), Error> {
        let pairs = blocks.counts.iter().zip(blocks.displs);
        for (root, (&count, &displ)) in pairs.enumerate() {
            let block = &mut recv[displ * scale..][..count * scale];
            if root == self.rank {
                block.copy_from_slice(send);
            }
            self.broadcast_words(block, root)?;
        }
        Ok(())
    }
}
