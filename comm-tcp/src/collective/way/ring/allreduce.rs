//! Allreduce: partial results go up the chain of ranks, the result comes back down it.
//!
//! ```text
//!          up: x0          up: x0 + x1
//! rank 0 ─────────► rank 1 ─────────────► rank 2     the last rank has the result
//!        ◄─────────        ◄─────────────
//!          down: result    down: result
//! ```
//!
//! Rank order is kept, element by element, which a reduction that starts each slice at another rank
//! would not. Both directions of every link are busy at once. `recv` holds the partial results until
//! the results replace them: the result of a byte cannot come before its partial result has gone.

use std::io::IoSlice;

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::Call;
use rustix::event::PollFd;

use crate::collective::way::{Heads, PORTION, fold};
use crate::engine::{Links, Progress, Task};
use crate::link::{Broken, Link};

/// Moves partial results up and results down.
#[derive(Debug)]
pub(crate) struct Allreduce<'a> {
    up: Heads,
    down: Heads,
    rank: usize,
    size: usize,
    own: Own<'a>,
    recv: &'a mut [u8],
    reduction: (ReduceOp, ScalarKind),
    /// Partial results that have come from below, been folded, and gone up; results that have come
    /// from above and gone down. All count bytes from the start.
    came_up: usize,
    folded: usize,
    gone_up: usize,
    came_down: usize,
    gone_down: usize,
}

/// Where a rank has what it contributes.
#[derive(Debug)]
pub(crate) enum Own<'a> {
    /// In a buffer of its own.
    Apart(&'a [u8]),
    /// Where the result goes; what comes from below has this room until it is folded, for whole elements of every kind.
    InPlace(&'a mut [u8]),
}

impl<'a> Allreduce<'a> {
    pub(crate) fn new(
        at: (u64, Call),
        (rank, size): (usize, usize),
        own: Own<'a>,
        recv: &'a mut [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Self {
        let length = recv.len();
        let (first, last) = (rank == 0, rank == size - 1);
        let bytes = |none: bool| if none { 0 } else { length };
        Self {
            up: Heads::new(at, bytes(last), bytes(first)),
            down: Heads::new(at, bytes(first), bytes(last)),
            rank,
            size,
            own,
            recv,
            reduction,
            // The first rank has nothing to wait for, and the last nobody to ask.
            came_up: length - bytes(first),
            folded: length - bytes(first),
            gone_up: length - bytes(last),
            came_down: 0,
            gone_down: length - bytes(first),
        }
    }

    fn length(&self) -> usize {
        self.recv.len()
    }

    fn is_last(&self) -> bool {
        self.rank == self.size - 1
    }

    /// Returns up to where results are there.
    fn results(&self) -> usize {
        if self.is_last() {
            self.folded
        } else {
            self.came_down
        }
    }

    fn take_from_below(&mut self, prev: &mut Link) -> Result<bool, Broken> {
        if self.came_up == self.length() || !self.up.came(prev)? {
            return Ok(false);
        }
        let most = PORTION.min(self.length() - self.came_up);
        let count = match &mut self.own {
            Own::Apart(_) => prev.read(&mut self.recv[self.came_up..][..most])?,
            Own::InPlace(room) => {
                // In front of it is what came of an element that is not whole yet.
                let held = self.came_up - self.folded;
                let most = most.min(room.len() - held);
                prev.read(&mut room[held..][..most])?
            }
        };
        self.came_up += count;
        let (_, scalar) = self.reduction;
        let whole = self.came_up - self.came_up % scalar.size();
        let part = &mut self.recv[self.folded..whole];
        match &mut self.own {
            Own::Apart(send) => {
                let own = &send[self.folded..whole];
                fold(part, own, self.reduction, self.rank)?;
            }
            // The other way round, with the same bits: a NaN is made canonical.
            Own::InPlace(room) => {
                fold(part, &room[..part.len()], self.reduction, self.rank)?;
                room.copy_within(part.len()..self.came_up - self.folded, 0);
            }
        }
        self.folded = whole;
        Ok(count > 0)
    }

    fn go_up(&mut self, next: &mut Link) -> Result<bool, Broken> {
        let end = self.folded.min(self.gone_up + PORTION);
        if self.gone_up >= end || !self.up.sent(next)? {
            return Ok(false);
        }
        let source: &[u8] = match self.own {
            Own::Apart(send) if self.rank == 0 => send,
            _ => self.recv,
        };
        let count = next.write(&[IoSlice::new(&source[self.gone_up..end])])?;
        self.gone_up += count;
        Ok(count > 0)
    }

    fn take_from_above(&mut self, next: &mut Link) -> Result<bool, Broken> {
        if self.is_last() || self.came_down == self.gone_up || !self.down.came(next)? {
            return Ok(false);
        }
        let end = self.gone_up.min(self.came_down + PORTION);
        let count = next.read(&mut self.recv[self.came_down..end])?;
        self.came_down += count;
        Ok(count > 0)
    }

    fn go_down(&mut self, prev: &mut Link) -> Result<bool, Broken> {
        let end = self.results().min(self.gone_down + PORTION);
        if self.gone_down >= end || !self.down.sent(prev)? {
            return Ok(false);
        }
        let count = prev.write(&[IoSlice::new(&self.recv[self.gone_down..end])])?;
        self.gone_down += count;
        Ok(count > 0)
    }
}

impl Task for Allreduce<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let ring = links.ring()?;
        let mut moved = self.take_from_above(&mut ring.next)?;
        moved |= self.go_down(&mut ring.prev)?;
        moved |= self.take_from_below(&mut ring.prev)?;
        moved |= self.go_up(&mut ring.next)?;
        let length = self.length();
        let done = [self.results(), self.gone_up, self.gone_down] == [length; 3];
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let Some(ring) = &links.ring else {
            return;
        };
        let from_below = self.came_up < self.length();
        let from_above = !self.is_last() && self.came_down < self.gone_up;
        fds.extend(
            ring.prev
                .interest(from_below, self.gone_down < self.results()),
        );
        fds.extend(ring.next.interest(from_above, self.gone_up < self.folded));
    }

    fn waits_for(&self) -> usize {
        if self.came_up < self.length() {
            self.rank - 1
        } else {
            (self.rank + 1).min(self.size - 1)
        }
    }
}
