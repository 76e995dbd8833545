//! The bytes of a large reduction over one data link, where the result replaces what this rank contributes.

use std::io::IoSlice;

use comm_api::{ReduceOp, ScalarKind};
use rustix::event::PollFd;

use super::{PORTION, fold};
use crate::engine::{Links, Progress, Task};
use crate::link::Broken;

/// Room for what comes in and cannot be folded yet; whole elements of every kind.
pub(crate) const ROOM: usize = 256 << 10;

/// Sends a buffer while what belongs into it comes in. A byte is changed only after it has gone.
///
/// That stops nobody: of two ranks that wait with a full room until more has gone, each would have taken more than it
/// sent, which is what the other took.
#[derive(Debug)]
pub(crate) struct InPlace<'a> {
    buffer: &'a mut [u8],
    folding: Folding<'a>,
    peer: usize,
    gone: usize,
    came: usize,
    /// Up to where the buffer holds results.
    done: usize,
}

/// How what comes in is combined with what is there, and its room until then.
#[derive(Debug)]
struct Folding<'a> {
    room: &'a mut [u8],
    reduction: (ReduceOp, ScalarKind),
}

impl<'a> InPlace<'a> {
    /// Folds the contribution of one other rank; either operand may be the first, with the same bits.
    pub(crate) fn folded(
        buffer: &'a mut [u8],
        room: &'a mut [u8],
        reduction: (ReduceOp, ScalarKind),
        peer: usize,
    ) -> Self {
        Self {
            buffer,
            folding: Folding { room, reduction },
            peer,
            gone: 0,
            came: 0,
            done: 0,
        }
    }

    /// Returns how many bytes can come in now.
    fn open(&self) -> usize {
        let left = self.buffer.len() - self.came;
        left.min(self.folding.room.len() - (self.came - self.done))
    }

    /// Puts what has come where bytes have gone.
    fn settle(&mut self) -> Result<(), Broken> {
        let Folding { room, reduction } = &mut self.folding;
        let (_, scalar) = *reduction;
        let end = self.came.min(self.gone);
        let end = end - end % scalar.size();
        if end > self.done {
            let part = &mut self.buffer[self.done..end];
            fold(part, &room[..part.len()], *reduction, self.peer)?;
            room.copy_within(part.len()..self.came - self.done, 0);
            self.done = end;
        }
        Ok(())
    }
}

impl Task for InPlace<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let link = &mut links.data[0];
        let mut moved = false;
        if self.gone < self.buffer.len() {
            let end = self.buffer.len().min(self.gone + PORTION);
            let count = link.write(&[IoSlice::new(&self.buffer[self.gone..end])])?;
            self.gone += count;
            moved |= count > 0;
        }
        let open = self.open().min(PORTION);
        if open > 0 {
            let held = self.came - self.done;
            let count = link.read(&mut self.folding.room[held..][..open])?;
            self.came += count;
            moved |= count > 0;
        }
        self.settle()?;
        let done = self.gone == self.buffer.len() && self.done == self.buffer.len();
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let (read, write) = (self.open() > 0, self.gone < self.buffer.len());
        fds.extend(links.data[0].interest(read, write));
    }

    fn waits_for(&self) -> usize {
        self.peer
    }
}
