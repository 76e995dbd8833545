//! Broadcast: the root's bytes for every rank, in pieces that MPI accepts.

use ferrompi::Error;

use crate::chunk::MOST;
use crate::element::{Width, Word, by_width, with_words};
use crate::ranks::Ranks;

impl Ranks {
    /// Sends the bytes of `root` to every rank.
    #[inline]
    pub(crate) fn broadcast(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), Error> {
        // All ranks agree on the length, so either all of them return here or none.
        if buf.is_empty() || self.size == 1 {
            return Ok(());
        }
        by_width!(Width::of(elem_size), self.broadcast_as::<W>(buf, root))
    }

    #[inline]
    fn broadcast_as<W: Word>(&self, buf: &mut [u8], root: usize) -> Result<(), Error> {
        with_words(buf, |words: &mut [W]| self.broadcast_words(words, root))
    }

    #[inline]
    pub(super) fn broadcast_words<W: Word>(
        &self,
        words: &mut [W],
        root: usize,
    ) -> Result<(), Error> {
        let root = self.mpi_rank(root);
        let mut pieces = words.chunks_mut(MOST);
        pieces.try_for_each(|piece| self.comm().broadcast(piece, root))
    }
}
