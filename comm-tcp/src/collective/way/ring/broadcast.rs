//! Broadcast: a pipelined chain from the root along the ring.

use std::io::IoSlice;

use comm_kit::Call;
use rustix::event::PollFd;

use crate::collective::way::{Heads, PORTION};
use crate::engine::{Links, Progress, Task};
use crate::link::Broken;

/// Passes the buffer on as it comes in.
#[derive(Debug)]
pub(crate) struct Broadcast<'a> {
    heads: Heads,
    buffer: &'a mut [u8],
    came: usize,
    gone: usize,
    /// How much is to go on: nothing from the last rank of the chain.
    onward: usize,
    neighbours: (usize, usize),
}

impl<'a> Broadcast<'a> {
    pub(crate) fn new(
        at: (u64, Call),
        (rank, size): (usize, usize),
        root: usize,
        buffer: &'a mut [u8],
    ) -> Self {
        let distance = (rank + size - root) % size;
        let length = buffer.len();
        let came = if distance == 0 { length } else { 0 };
        let onward = if distance == size - 1 { 0 } else { length };
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

impl Task for Broadcast<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let ring = links.ring()?;
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
        let done = self.came == self.buffer.len() && self.gone == self.onward;
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let Some(ring) = &links.ring else {
            return;
        };
        let expects_more = self.came < self.buffer.len();
        fds.extend(ring.prev.interest(expects_more, false));
        fds.extend(ring.next.interest(false, self.ready() > 0));
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
