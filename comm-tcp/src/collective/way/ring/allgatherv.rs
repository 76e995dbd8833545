//! Allgatherv: the blocks go round the ring.
//!
//! ```text
//! rank r sends     block r, r-1, r-2, ..          to r+1
//!        receives  block r-1, r-2, .., r+1        from r-1
//! ```
//!
//! What comes in goes on at once, byte by byte and not block by block, from where it landed: a rank
//! sends its own block followed by the stream it receives, less the last block.

use std::io::IoSlice;
use std::ops::Range;

use comm_kit::Call;
use rustix::event::PollFd;

use crate::collective::ByteBlocks;
use crate::collective::way::{Heads, PORTION};
use crate::engine::{Links, Progress, Task};
use crate::link::{Broken, Link};

/// Moves the blocks round.
#[derive(Debug)]
pub(crate) struct Allgatherv<'a> {
    heads: Heads,
    rank: usize,
    /// The block of this rank, unless it is in its place already.
    send: Option<&'a [u8]>,
    recv: &'a mut [u8],
    blocks: ByteBlocks<'a>,
    out: Cursor,
    inward: Cursor,
}

/// How far a stream of blocks is: which block of the stream, and how many bytes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cursor {
    block: usize,
    offset: usize,
}

impl Cursor {
    fn next_block(&mut self) {
        *self = Self {
            block: self.block + 1,
            offset: 0,
        };
    }
}

impl<'a> Allgatherv<'a> {
    pub(crate) fn new(
        at: (u64, Call),
        rank: usize,
        send: Option<&'a [u8]>,
        recv: &'a mut [u8],
        blocks: ByteBlocks<'a>,
    ) -> Self {
        let bytes_in = blocks.total_without(rank);
        let start = Cursor {
            block: 0,
            offset: 0,
        };
        Self {
            heads: Heads::new(at, bytes_out(blocks, rank), bytes_in),
            rank,
            send,
            recv,
            blocks,
            out: start,
            inward: start,
        }
    }

    fn size(&self) -> usize {
        self.blocks.counts.len()
    }

    /// Returns how many blocks each of the two streams has.
    fn length(&self) -> usize {
        links_crossed(self.size())
    }

    /// Returns where block number `block` of the outgoing stream lies. Block `n` of the incoming
    /// stream is that of number `n + 1`.
    fn range(&self, block: usize) -> Range<usize> {
        let size = self.size();
        self.blocks.range((self.rank + size - block) % size)
    }

    /// Returns how much of the current outgoing block can be sent.
    fn available(&self) -> usize {
        let Cursor { block, offset } = self.out;
        let ready = match block {
            0 => self.range(0).len(),
            _ if block >= self.length() => return 0,
            _ if self.inward.block >= block => self.range(block).len(),
            _ if self.inward.block + 1 == block => self.inward.offset,
            _ => 0,
        };
        ready - offset
    }

    /// Steps over blocks that are through, empty ones included.
    fn skip_finished(&mut self) {
        let length = self.length();
        while self.out.block < length && self.out.offset == self.range(self.out.block).len() {
            self.out.next_block();
        }
        while self.inward.block < length
            && self.inward.offset == self.range(self.inward.block + 1).len()
        {
            self.inward.next_block();
        }
    }

    fn write(&mut self, next: &mut Link) -> Result<bool, Broken> {
        let available = self.available().min(PORTION);
        if available == 0 || !self.heads.sent(next)? {
            return Ok(false);
        }
        let Cursor { block, offset } = self.out;
        let range = self.range(block);
        let count = if let (0, Some(send)) = (block, self.send) {
            let part = &send[offset..offset + available];
            let count = next.write(&[IoSlice::new(part)])?;
            // The own block is copied while it is still in the cache.
            self.recv[range][offset..offset + count].copy_from_slice(&part[..count]);
            count
        } else {
            let part = &self.recv[range][offset..offset + available];
            next.write(&[IoSlice::new(part)])?
        };
        self.out.offset += count;
        Ok(count > 0)
    }

    fn read(&mut self, prev: &mut Link) -> Result<bool, Broken> {
        if self.inward.block >= self.length() || !self.heads.came(prev)? {
            return Ok(false);
        }
        let Cursor { block, offset } = self.inward;
        let range = self.range(block + 1);
        let end = range.len().min(offset + PORTION);
        let count = prev.read(&mut self.recv[range][offset..end])?;
        self.inward.offset += count;
        Ok(count > 0)
    }
}

impl Task for Allgatherv<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let ring = links.ring()?;
        self.skip_finished();
        let mut moved = self.write(&mut ring.next)?;
        moved |= self.read(&mut ring.prev)?;
        self.skip_finished();
        let length = self.length();
        let done = self.out.block >= length && self.inward.block >= length;
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let Some(ring) = &links.ring else {
            return;
        };
        let expects_more = self.inward.block < self.length();
        fds.extend(ring.prev.interest(expects_more, false));
        fds.extend(ring.next.interest(false, self.available() > 0));
    }

    fn waits_for(&self) -> usize {
        if self.inward.block < self.length() {
            (self.rank + self.size() - 1) % self.size()
        } else {
            (self.rank + 1) % self.size()
        }
    }
}

/// Returns how many bytes a rank sends to its successor: all blocks but the successor's own.
pub(crate) fn bytes_out(blocks: ByteBlocks<'_>, rank: usize) -> usize {
    let successor = (rank + 1) % blocks.counts.len();
    blocks.total_without(successor)
}

/// Returns over how many links of the ring a block goes; as many blocks go over each link.
pub(crate) fn links_crossed(size: usize) -> usize {
    size - 1
}
