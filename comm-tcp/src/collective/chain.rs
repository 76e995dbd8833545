//! A large broadcast: a pipelined chain from the root along the ring.

use std::io::IoSlice;

use super::ring::{Heads, PORTION, ring};
use crate::call::Call;
use crate::engine::{Step, Task};
use crate::link::Broken;
use crate::links::{Links, Port, Want};
use crate::watch::Outlook;

/// Passes the buffer on as it comes in.
#[derive(Debug)]
pub(crate) struct Chain<'a> {
    heads: Heads,
    buffer: &'a mut [u8],
    came: usize,
    gone: usize,
    /// How much is to go on: nothing from the last rank of the chain.
    onward: usize,
    neighbours: (usize, usize),
}

impl<'a> Chain<'a> {
    pub(crate) fn new(
        at: (u64, Call),
        (rank, size): (usize, usize),
        root: usize,
        buffer: &'a mut [u8],
    ) -> Self {
        let place = (rank + size - root) % size;
        let length = buffer.len();
        let came = if place == 0 { length } else { 0 };
        let onward = if place == size - 1 { 0 } else { length };
        Self {
            heads: Heads::new(at, onward, length - came),
            buffer,
            came,
            gone: 0,
            onward,
            neighbours: ((rank + size - 1) % size, (rank + 1) % size),
        }
    }

    fn ready(&self) -> usize {
        self.came.min(self.onward) - self.gone
    }
}

impl Task for Chain<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let ring = ring(links)?;
        let mut moved = false;
        let ready = self.ready().min(PORTION);
        if ready > 0 && self.heads.sent(&mut ring.next)? {
            let part = &self.buffer[self.gone..self.gone + ready];
            let count = ring.next.write(&[IoSlice::new(part)])?;
            self.gone += count;
            moved |= count > 0;
        }
        if self.came < self.buffer.len() && self.heads.came(&mut ring.prev)? {
            let end = self.buffer.len().min(self.came + PORTION);
            let count = ring.prev.read(&mut self.buffer[self.came..end])?;
            self.came += count;
            moved |= count > 0;
        }
        if self.came == self.buffer.len() && self.gone == self.onward {
            return Ok(Step::Done);
        }
        Ok(Step::moved(moved))
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.push(Want {
            port: Port::Prev,
            read: self.came < self.buffer.len(),
            write: false,
        });
        wants.push(Want {
            port: Port::Next,
            read: false,
            write: self.ready() > 0,
        });
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        let (prev, next) = self.neighbours;
        if self.came < self.buffer.len() {
            prev
        } else {
            next
        }
    }
}
