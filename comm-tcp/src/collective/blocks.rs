//! Where the blocks of an allgatherv lie.

use std::ops::Range;

use super::entry::Land;

/// Knows the blocks of one rank's buffer, in bytes. The arguments were checked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Blocks<'a> {
    pub(crate) counts: &'a [usize],
    pub(crate) displs: &'a [usize],
    pub(crate) elem_size: usize,
}

impl Blocks<'_> {
    /// Gives the bytes of block `rank`.
    pub(crate) fn range(&self, rank: usize) -> Range<usize> {
        if self.elem_size == 0 {
            return 0..0;
        }
        let start = self.displs[rank] * self.elem_size;
        start..start + self.counts[rank] * self.elem_size
    }

    /// Gives the bytes of all blocks together.
    pub(crate) fn total(&self) -> usize {
        (0..self.counts.len())
            .map(|rank| self.range(rank).len())
            .sum()
    }

    /// Gives the range of all blocks if they lie one after the other in rank order.
    pub(crate) fn together(&self) -> Option<Range<usize>> {
        let mut whole: Option<Range<usize>> = None;
        for rank in 0..self.counts.len() {
            let range = self.range(rank);
            whole = match whole {
                _ if range.is_empty() => whole,
                None => Some(range),
                Some(whole) if whole.end == range.start => Some(whole.start..range.end),
                Some(_) => return None,
            };
        }
        Some(whole.unwrap_or(0..0))
    }
}

/// Spreads a payload that holds all blocks in rank order over a buffer.
#[derive(Debug)]
pub(crate) struct Scatter<'a> {
    blocks: Blocks<'a>,
    buffer: &'a mut [u8],
    total: usize,
    without: Option<usize>,
    /// The block that was asked for last, and where it begins in the payload.
    place: (usize, usize),
}

impl<'a> Scatter<'a> {
    pub(crate) fn new(blocks: Blocks<'a>, buffer: &'a mut [u8]) -> Self {
        Self {
            total: blocks.total(),
            blocks,
            buffer,
            without: None,
            place: (0, 0),
        }
    }

    /// Leaves out the block of `rank`, which does not come.
    pub(crate) fn without(mut self, rank: usize) -> Self {
        self.total -= self.blocks.range(rank).len();
        self.without = Some(rank);
        self
    }

    fn range(&self, rank: usize) -> Range<usize> {
        if self.without == Some(rank) {
            return 0..0;
        }
        self.blocks.range(rank)
    }
}

impl Land for Scatter<'_> {
    fn len(&self) -> usize {
        self.total
    }

    fn room(&mut self, at: usize) -> &mut [u8] {
        let (mut rank, mut start) = self.place;
        let mut range = self.range(rank);
        while at >= start + range.len() {
            start += range.len();
            rank += 1;
            range = self.range(rank);
        }
        self.place = (rank, start);
        let skip = at - start;
        &mut self.buffer[range][skip..]
    }
}
