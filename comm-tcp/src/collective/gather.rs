//! A large allgatherv: the blocks go round the ring.
//!
//! ```text
//! rank r sends     block r, r-1, r-2, ..          to r+1
//!        receives  block r-1, r-2, .., r+1        from r-1
//! ```
//!
//! What comes in goes on at once, byte by byte and not block by block, from where it landed: a rank
//! sends its own block followed by the stream it receives, less the last block.

use std::io::IoSlice;

use super::blocks::Blocks;
use super::ring::{Heads, PORTION, ring};
use crate::call::Call;
use crate::engine::{Step, Task};
use crate::link::{Broken, Link};
use crate::links::{Links, Port, Want};
use crate::watch::Outlook;

/// Moves the blocks round.
#[derive(Debug)]
pub(crate) struct Gather<'a> {
    heads: Heads,
    rank: usize,
    send: &'a [u8],
    recv: &'a mut [u8],
    blocks: Blocks<'a>,
    out: Place,
    inward: Place,
}

/// A place in a stream of blocks: which block of the stream, and how far into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    block: usize,
    offset: usize,
}

impl<'a> Gather<'a> {
    pub(crate) fn new(
        at: (u64, Call),
        rank: usize,
        send: &'a [u8],
        recv: &'a mut [u8],
        blocks: Blocks<'a>,
    ) -> Self {
        let size = blocks.counts.len();
        let total = blocks.total();
        let bytes_out = total - blocks.range((rank + 1) % size).len();
        let bytes_in = total - send.len();
        let start = Place {
            block: 0,
            offset: 0,
        };
        Self {
            heads: Heads::new(at, bytes_out, bytes_in),
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

    /// Gives how many bytes this rank sends.
    #[cfg(test)]
    pub(crate) fn load(&self) -> u64 {
        self.heads.bytes_out()
    }

    /// Gives over how many links a block goes: as many as there are blocks in what a rank sends.
    #[cfg(test)]
    pub(crate) fn hops(&self) -> usize {
        self.size() - 1
    }

    /// Gives the rank whose block is number `block` of the stream that begins with that of `first`.
    fn owner(&self, first: usize, block: usize) -> usize {
        (first + self.size() - block) % self.size()
    }

    /// Gives how much of the current outgoing block can be sent.
    fn available(&self) -> usize {
        let Place { block, offset } = self.out;
        let ready = match block {
            0 => self.send.len(),
            _ if block >= self.size() - 1 => return 0,
            _ if self.inward.block >= block => {
                self.blocks.range(self.owner(self.rank, block)).len()
            }
            _ if self.inward.block + 1 == block => self.inward.offset,
            _ => 0,
        };
        ready - offset
    }

    /// Steps over blocks that are through, empty ones included.
    fn settle(&mut self) {
        let last = self.size() - 1;
        while self.out.block < last
            && self.out.offset
                == self
                    .blocks
                    .range(self.owner(self.rank, self.out.block))
                    .len()
        {
            self.out = Place {
                block: self.out.block + 1,
                offset: 0,
            };
        }
        let before = self.owner(self.rank, 1);
        while self.inward.block < last
            && self.inward.offset
                == self
                    .blocks
                    .range(self.owner(before, self.inward.block))
                    .len()
        {
            self.inward = Place {
                block: self.inward.block + 1,
                offset: 0,
            };
        }
    }

    fn write(&mut self, next: &mut Link) -> Result<bool, Broken> {
        let available = self.available().min(PORTION);
        if available == 0 || !self.heads.sent(next)? {
            return Ok(false);
        }
        let Place { block, offset } = self.out;
        let range = self.blocks.range(self.owner(self.rank, block));
        let count = if block == 0 {
            let part = &self.send[offset..offset + available];
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
        if self.inward.block >= self.size() - 1 || !self.heads.came(prev)? {
            return Ok(false);
        }
        let Place { block, offset } = self.inward;
        let before = self.owner(self.rank, 1);
        let range = self.blocks.range(self.owner(before, block));
        let end = range.len().min(offset + PORTION);
        let count = prev.read(&mut self.recv[range][offset..end])?;
        self.inward.offset += count;
        Ok(count > 0)
    }
}

impl Task for Gather<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let ring = ring(links)?;
        self.settle();
        let mut moved = self.write(&mut ring.next)?;
        moved |= self.read(&mut ring.prev)?;
        self.settle();
        let last = self.size() - 1;
        if self.out.block >= last && self.inward.block >= last {
            return Ok(Step::Done);
        }
        Ok(Step::moved(moved))
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.push(Want {
            port: Port::Prev,
            read: self.inward.block < self.size() - 1,
            write: false,
        });
        wants.push(Want {
            port: Port::Next,
            read: false,
            write: self.available() > 0,
        });
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        if self.inward.block < self.size() - 1 {
            self.owner(self.rank, 1)
        } else {
            (self.rank + 1) % self.size()
        }
    }
}
