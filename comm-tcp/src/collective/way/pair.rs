//! The bytes of a large call of two ranks, both ways at once over their only data link.

use std::io::IoSlice;

use comm_api::{ReduceOp, ScalarKind};
use rustix::event::PollFd;

use super::{PORTION, Sink, fold};
use crate::engine::{Links, Progress, Task};
use crate::link::Broken;

/// The most that is moved in one go where nothing comes the other way.
const ONE_WAY: usize = 16 << 20;

/// Sends one buffer while another comes in.
#[derive(Debug)]
pub(crate) struct PairTransfer<'a, S: ?Sized> {
    out: &'a [u8],
    sink: &'a mut S,
    /// Where a copy of what goes out belongs, if anywhere.
    copy: &'a mut [u8],
    peer: usize,
    /// The most that is moved in one go.
    portion: usize,
    gone: usize,
    came: usize,
}

impl<'a, S: Sink + ?Sized> PairTransfer<'a, S> {
    pub(crate) fn new(out: &'a [u8], sink: &'a mut S, peer: usize) -> Self {
        let one_way = out.is_empty() || sink.len() == 0;
        Self {
            portion: if one_way { ONE_WAY } else { PORTION },
            out,
            sink,
            copy: &mut [],
            peer,
            gone: 0,
            came: 0,
        }
    }

    /// Copies what goes out as well, while it is still in the cache.
    pub(crate) fn with_copy(mut self, copy: &'a mut [u8]) -> Self {
        self.copy = copy;
        self
    }
}

impl<S: Sink + ?Sized> Task for PairTransfer<'_, S> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let link = &mut links.data[0];
        let mut moved = false;
        if self.gone < self.out.len() {
            let end = self.out.len().min(self.gone + self.portion);
            let count = link.write(&[IoSlice::new(&self.out[self.gone..end])])?;
            let sent = self.gone..self.gone + count;
            if !self.copy.is_empty() {
                self.copy[sent.clone()].copy_from_slice(&self.out[sent]);
            }
            self.gone += count;
            moved |= count > 0;
        }
        if self.came < self.sink.len() {
            let room = self.sink.room(self.came);
            let most = room.len().min(self.portion);
            let count = link.read(&mut room[..most])?;
            self.came += count;
            self.sink.came(self.came, self.peer)?;
            moved |= count > 0;
        }
        let done = self.gone == self.out.len() && self.came == self.sink.len();
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let (read, write) = (self.came < self.sink.len(), self.gone < self.out.len());
        fds.extend(links.data[0].interest(read, write));
    }

    fn waits_for(&self) -> usize {
        self.peer
    }
}

/// Combines what comes in with what this rank contributes, element by element as they come.
///
/// The other operand may be the first in rank order: every operation gives the same bits either way
/// round, because a NaN is made canonical.
#[derive(Debug)]
pub(crate) struct Folding<'a> {
    recv: &'a mut [u8],
    own: &'a [u8],
    reduction: (ReduceOp, ScalarKind),
    folded: usize,
}

impl<'a> Folding<'a> {
    pub(crate) fn new(
        recv: &'a mut [u8],
        own: &'a [u8],
        reduction: (ReduceOp, ScalarKind),
    ) -> Self {
        Self {
            recv,
            own,
            reduction,
            folded: 0,
        }
    }
}

impl Sink for Folding<'_> {
    fn len(&self) -> usize {
        self.recv.len()
    }

    fn room(&mut self, at: usize) -> &mut [u8] {
        &mut self.recv[at..]
    }

    fn came(&mut self, end: usize, peer: usize) -> Result<(), Broken> {
        let (_, scalar) = self.reduction;
        let part = self.folded..end - end % scalar.size();
        self.folded = part.end;
        let own = &self.own[part.clone()];
        fold(&mut self.recv[part], own, self.reduction, peer)
    }
}
