//! Allgatherv: the blocks of all ranks to all ranks.

use std::ops::Range;

use comm_api::Blocks;
use comm_kit::Call;

use super::Failure;
use super::way::{Algorithm, Contributions, Load, PairTransfer, Sink, ring};
use crate::engine::Engine;

impl Engine {
    pub(crate) fn allgatherv(
        &mut self,
        send: &[u8],
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        let call = Call::allgatherv(blocks.counts, blocks.elem_size);
        let own = blocks.range(self.rank);
        let algorithm = self.begin(call, Load::Gathered(blocks.total()))?;
        if !matches!(algorithm, Algorithm::LargePair | Algorithm::Ring) {
            // Those two copy the own block as it goes out, while it is in the cache.
            recv[own.clone()].copy_from_slice(send);
        }
        match algorithm {
            Algorithm::SmallPair => {
                let theirs = blocks.range(self.peer());
                self.enter(call, send, &mut recv[theirs])
            }
            Algorithm::SmallStar if self.rank > 0 => {
                self.enter_with_block(call, send, recv, blocks)
            }
            Algorithm::LargePair => {
                let (own, theirs) = apart(recv, own, blocks.range(self.peer()));
                self.run(
                    call,
                    PairTransfer::new(send, theirs, self.peer()).with_copy(own),
                )
            }
            Algorithm::Ring => self.gather_along_the_ring(call, Some(send), recv, blocks),
            Algorithm::SmallStar | Algorithm::Pieces => {
                self.gather_in_place(call, algorithm, recv, blocks)
            }
        }
    }

    /// Gathers the parts of a region, where the block of this rank is in its place and the blocks lie in rank order without
    /// gaps.
    pub(crate) fn exchange(
        &mut self,
        call: Call,
        whole: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        let algorithm = self.begin(call, Load::Gathered(blocks.total()))?;
        self.gather_in_place(call, algorithm, whole, blocks)
    }

    /// Gathers all blocks; that of this rank is in its place. Where others of this rank's come and go at once, all lie in rank
    /// order without gaps.
    fn gather_in_place(
        &mut self,
        call: Call,
        algorithm: Algorithm,
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        let own = blocks.range(self.rank);
        match algorithm {
            Algorithm::SmallStar if self.rank == 0 => self.gather_at_rank_0(call, recv, blocks),
            Algorithm::SmallStar => self.with_scratch(0, |engine, block| {
                // Small, and what comes back holds this block, too.
                block.extend_from_slice(&recv[own]);
                engine.enter_with_block(call, block, recv, blocks)
            }),
            Algorithm::SmallPair => {
                let (own, theirs) = apart(recv, own, blocks.range(self.peer()));
                self.enter(call, own, theirs)
            }
            Algorithm::LargePair => {
                let (own, theirs) = apart(recv, own, blocks.range(self.peer()));
                self.run(call, PairTransfer::new(own, theirs, self.peer()))
            }
            Algorithm::Ring => self.gather_along_the_ring(call, None, recv, blocks),
            Algorithm::Pieces => {
                self.in_pieces(Load::Gathered(blocks.total()), 1, |engine, piece| {
                    let (counts, displs) = blocks.within(piece);
                    let parts = ByteBlocks {
                        counts: &counts,
                        displs: &displs,
                        elem_size: 1,
                    };
                    engine.gather_in_place(call, Algorithm::SmallStar, recv, parts)
                })
            }
        }
    }

    /// Enters with the block of this rank, on a worker, and takes all blocks from the answer.
    fn enter_with_block(
        &mut self,
        call: Call,
        block: &[u8],
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        match blocks.together() {
            Some(whole) => self.enter(call, block, &mut recv[whole]),
            None => self.enter(call, block, &mut Scatter::new(blocks, recv)),
        }
    }

    /// Gathers along the ring; without `send` the block of this rank is in its place.
    fn gather_along_the_ring(
        &mut self,
        call: Call,
        send: Option<&[u8]>,
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        let at = (self.sequence, call);
        self.run(
            call,
            ring::Allgatherv::new(at, self.rank, send, recv, blocks),
        )
    }

    /// Takes all blocks with the entries and answers with all of them, on rank 0.
    fn gather_at_rank_0(
        &mut self,
        call: Call,
        recv: &mut [u8],
        blocks: ByteBlocks<'_>,
    ) -> Result<(), Failure> {
        let refused = self.collect(call, Contributions::Blocks(blocks, recv))?;
        if let Some(whole) = blocks.together() {
            return self.answer(call, &refused, |_| &recv[whole.clone()]);
        }
        self.with_scratch(0, |engine, gathered| {
            for rank in 0..engine.size {
                gathered.extend_from_slice(&recv[blocks.range(rank)]);
            }
            engine.answer(call, &refused, |_| gathered)
        })
    }
}

/// Returns two blocks of one buffer that do not overlap.
fn apart(buffer: &mut [u8], a: Range<usize>, b: Range<usize>) -> (&mut [u8], &mut [u8]) {
    if a.is_empty() {
        (&mut [], &mut buffer[b])
    } else if b.is_empty() {
        (&mut buffer[a], &mut [])
    } else if a.start < b.start {
        let (low, high) = buffer.split_at_mut(b.start);
        (&mut low[a], &mut high[..b.len()])
    } else {
        let (low, high) = buffer.split_at_mut(a.start);
        (&mut high[..a.len()], &mut low[b])
    }
}

/// Where the blocks of an allgatherv lie in the buffer of one rank. The arguments were checked.
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

    /// Returns the range of block `rank`.
    pub(crate) fn range(&self, rank: usize) -> Range<usize> {
        if self.elem_size == 0 {
            return 0..0;
        }
        let start = self.displs[rank] * self.elem_size;
        start..start + self.counts[rank] * self.elem_size
    }

    /// Returns how many bytes all blocks have together.
    pub(crate) fn total(&self) -> usize {
        // No more than a buffer holds; of what takes no bytes there may be any number.
        let counts = self.counts.iter();
        counts.fold(0, |sum: usize, count| sum.wrapping_add(*count)) * self.elem_size
    }

    /// Returns how many bytes all blocks but that of `rank` have together.
    pub(crate) fn total_without(&self, rank: usize) -> usize {
        self.total() - self.range(rank).len()
    }

    /// Returns which parts of the blocks lie in this piece of all of them, in rank order: their lengths and places in
    /// bytes.
    fn within(&self, piece: Range<usize>) -> (Vec<usize>, Vec<usize>) {
        let mut before = 0;
        let part = |rank| {
            let block = self.range(rank);
            let cut = |at: usize| at.saturating_sub(before).min(block.len());
            let (start, end) = (cut(piece.start), cut(piece.end));
            before += block.len();
            (end - start, block.start + start)
        };
        (0..self.counts.len()).map(part).unzip()
    }

    /// Returns the range of all blocks if they lie one after the other in rank order.
    pub(crate) fn together(&self) -> Option<Range<usize>> {
        let first = self.counts.iter().position(|&count| count > 0);
        let (Some(first), 1..) = (first, self.elem_size) else {
            return Some(0..0);
        };
        let start = self.displs[first];
        let mut end = start;
        for (&count, &displ) in self.counts.iter().zip(self.displs) {
            if count > 0 && displ != end {
                return None;
            }
            end += count;
        }
        Some(start * self.elem_size..end * self.elem_size)
    }
}

/// Spreads a payload that holds all blocks in rank order over a buffer.
#[derive(Debug)]
pub(crate) struct Scatter<'a> {
    blocks: ByteBlocks<'a>,
    buffer: &'a mut [u8],
    total: usize,
    /// The block that was asked for last, and where it begins in the payload.
    cursor: (usize, usize),
}

impl<'a> Scatter<'a> {
    pub(crate) fn new(blocks: ByteBlocks<'a>, buffer: &'a mut [u8]) -> Self {
        Self {
            total: blocks.total(),
            blocks,
            buffer,
            cursor: (0, 0),
        }
    }
}

impl Sink for Scatter<'_> {
    fn len(&self) -> usize {
        self.total
    }

    fn room(&mut self, at: usize) -> &mut [u8] {
        let (mut rank, mut start) = self.cursor;
        let mut range = self.blocks.range(rank);
        while at >= start + range.len() {
            start += range.len();
            rank += 1;
            range = self.blocks.range(rank);
        }
        self.cursor = (rank, start);
        let skip = at - start;
        // Blocks that lie together come with one system call, not one each.
        let mut end = range.end;
        for next in rank + 1..self.blocks.counts.len() {
            match self.blocks.range(next) {
                next if next.is_empty() => {}
                next if next.start == end => end = next.end,
                _ => break,
            }
        }
        &mut self.buffer[range.start + skip..end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns where the rooms begin that a payload is read into, and how long they are, in elements, if every room is filled.
    fn rooms(counts: &[usize], displs: &[usize]) -> Vec<(usize, usize)> {
        let blocks = ByteBlocks {
            counts,
            displs,
            elem_size: 2,
        };
        let mut buffer: Vec<u8> = (0..40).collect();
        let mut sink = Scatter::new(blocks, &mut buffer);
        let (mut rooms, mut at) = (Vec::new(), 0);
        while at < sink.len() {
            let room = sink.room(at);
            rooms.push((usize::from(room[0]) / 2, room.len() / 2));
            at += room.len();
        }
        assert_eq!(at, sink.len());
        rooms
    }

    #[test]
    fn blocks_that_lie_together_are_read_together() {
        assert_eq!(rooms(&[2, 3, 4], &[1, 3, 6]), [(1, 9)]);
        assert_eq!(rooms(&[2, 0, 4], &[1, 15, 3]), [(1, 6)]);
        assert_eq!(rooms(&[2, 3, 4], &[0, 3, 6]), [(0, 2), (3, 7)]);
        assert_eq!(rooms(&[2, 3, 4], &[7, 4, 0]), [(7, 2), (4, 3), (0, 4)]);
        assert_eq!(rooms(&[0, 0], &[0, 0]), []);
    }

    #[test]
    fn the_pieces_of_blocks_hold_every_byte_once_in_rank_order() {
        let (counts, displs) = ([3, 0, 2, 4], [10, 40, 0, 4]);
        let blocks = ByteBlocks {
            counts: &counts,
            displs: &displs,
            elem_size: 2,
        };
        let whole: Vec<usize> = (0..4).flat_map(|rank| blocks.range(rank)).collect();
        for most in 1..=blocks.total() + 1 {
            let mut found = Vec::new();
            for start in (0..blocks.total()).step_by(most) {
                let (counts, displs) = blocks.within(start..blocks.total().min(start + most));
                let parts = counts.iter().zip(&displs);
                found.extend(parts.flat_map(|(&count, &displ)| displ..displ + count));
            }
            assert_eq!(found, whole, "pieces of {most} bytes");
        }
        assert_eq!(blocks.within(5..11), (vec![1, 0, 4, 1], vec![25, 80, 0, 8]));
    }

    #[test]
    fn a_room_goes_on_where_the_last_read_ended() {
        let mut buffer: Vec<u8> = (0..9).collect();
        let blocks = ByteBlocks {
            counts: &[2, 3, 4],
            displs: &[0, 2, 5],
            elem_size: 1,
        };
        let mut sink = Scatter::new(blocks, &mut buffer);
        for at in [0, 1, 2, 4, 6, 8] {
            let rest: Vec<u8> = (at..9).collect();
            assert_eq!(sink.room(at.into()), rest);
        }
    }
}
