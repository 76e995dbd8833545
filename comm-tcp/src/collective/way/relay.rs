//! The part of rank 0 in large calls without a ring: it passes on what comes in. The workers run an
//! [`Exchange`](super::Exchange).
//!
//! Slower than the ring by far, because all bytes of all ranks pass one machine, but right: some
//! networks let every rank reach rank 0 and no other.

use std::io::IoSlice;
use std::ops::Range;

use comm_api::{ReduceOp, ScalarKind};
use rustix::event::PollFd;

use super::{PORTION, fold};
use crate::collective::Blocks;
use crate::engine::{Links, Progress, Task};
use crate::link::Broken;

/// One stretch of the buffer of rank 0, and how much of it is there.
#[derive(Debug)]
struct Stretch {
    range: Range<usize>,
    /// The rank it comes from.
    from: usize,
    came: usize,
}

impl Stretch {
    fn new(range: Range<usize>, from: usize) -> Self {
        let came = if from == 0 { range.len() } else { 0 };
        Self { range, from, came }
    }

    fn is_there(&self) -> bool {
        self.came == self.range.len()
    }
}

/// Takes stretches from workers and sends each of them to all others, on rank 0.
#[derive(Debug)]
pub(crate) struct Forward<'a> {
    buffer: &'a mut [u8],
    stretches: Vec<Stretch>,
    /// Of each worker, which stretch it is sent and how much of it has gone.
    outgoing: Vec<(usize, usize)>,
}

impl<'a> Forward<'a> {
    /// Passes on each block to all ranks but its own; the block of rank 0 is in its place.
    pub(crate) fn blocks(recv: &'a mut [u8], blocks: Blocks<'_>) -> Self {
        let size = blocks.counts.len();
        let stretches = (0..size).map(|rank| Stretch::new(blocks.range(rank), rank));
        Self::new(recv, stretches.collect(), size)
    }

    /// Passes on the buffer of the root.
    pub(crate) fn buffer(buffer: &'a mut [u8], root: usize, size: usize) -> Self {
        let whole = Stretch::new(0..buffer.len(), root);
        Self::new(buffer, vec![whole], size)
    }

    fn new(buffer: &'a mut [u8], stretches: Vec<Stretch>, size: usize) -> Self {
        Self {
            buffer,
            stretches,
            outgoing: vec![(0, 0); size - 1],
        }
    }

    /// Returns what can be sent to a worker now, past stretches that are through or its own.
    fn ready(&self, place: usize) -> (usize, Range<usize>) {
        let (mut at, mut gone) = self.outgoing[place];
        while let Some(stretch) = self.stretches.get(at) {
            if stretch.from != place + 1 && gone < stretch.range.len() {
                let start = stretch.range.start;
                let end = stretch.came.min(gone + PORTION);
                return (at, start + gone..start + end.max(gone));
            }
            (at, gone) = (at + 1, 0);
        }
        (at, 0..0)
    }
}

impl Task for Forward<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let mut moved = false;
        for stretch in &mut self.stretches {
            if !stretch.is_there() {
                let start = stretch.range.start + stretch.came;
                let end = stretch.range.end.min(start + PORTION);
                let link = &mut links.data[stretch.from - 1];
                let count = link.read(&mut self.buffer[start..end])?;
                stretch.came += count;
                moved |= count > 0;
            }
        }
        let mut done = self.stretches.iter().all(Stretch::is_there);
        for place in 0..self.outgoing.len() {
            let (at, part) = self.ready(place);
            if at < self.stretches.len() {
                done = false;
            }
            if !part.is_empty() {
                let gone = part.start - self.stretches[at].range.start;
                let count = links.data[place].write(&[IoSlice::new(&self.buffer[part])])?;
                self.outgoing[place] = (at, gone + count);
                moved |= count > 0;
            }
        }
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        for (place, link) in links.data.iter().enumerate() {
            let (_, part) = self.ready(place);
            let mut stretches = self.stretches.iter();
            let read = stretches.any(|s| s.from == place + 1 && !s.is_there());
            fds.extend(link.interest(read, !part.is_empty()));
        }
    }

    fn waits_for(&self) -> usize {
        let late = self.stretches.iter().find(|stretch| !stretch.is_there());
        let slow = || {
            let mut places = 0..self.outgoing.len();
            let slow = places.find(|&place| !self.ready(place).1.is_empty());
            slow.map_or(0, |place| place + 1)
        };
        late.map_or_else(slow, |stretch| stretch.from)
    }
}

/// Folds what the workers send into what rank 0 has, portion by portion in rank order, and sends the results back.
#[derive(Debug)]
pub(crate) struct Allreduce<'a> {
    buffer: &'a mut [u8],
    reduction: (ReduceOp, ScalarKind),
    /// The portion that is being folded: one slot per worker, and how much of each has come.
    slots: &'a mut [u8],
    portion: usize,
    came: Vec<usize>,
    folded: usize,
    gone: Vec<usize>,
}

/// How much of each worker is kept until it can be folded; whole elements of every kind.
pub(crate) const SLOT: usize = 64 << 10;

impl<'a> Allreduce<'a> {
    /// `slots` has room for [`SLOT`] bytes of every worker.
    pub(crate) fn new(
        buffer: &'a mut [u8],
        reduction: (ReduceOp, ScalarKind),
        slots: &'a mut [u8],
    ) -> Self {
        let workers = slots.len() / SLOT;
        Self {
            portion: buffer.len().min(SLOT),
            buffer,
            reduction,
            slots,
            came: vec![0; workers],
            folded: 0,
            gone: vec![0; workers],
        }
    }

    fn fold(&mut self) -> Result<(), Broken> {
        let range = self.folded..self.folded + self.portion;
        let into = &mut self.buffer[range.clone()];
        for slot in self.slots.chunks_exact(SLOT) {
            fold(into, &slot[..self.portion], self.reduction, 0)?;
        }
        self.folded = range.end;
        self.portion = (self.buffer.len() - self.folded).min(SLOT);
        self.came.fill(0);
        Ok(())
    }
}

impl Task for Allreduce<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let mut moved = false;
        let slots = self.slots.chunks_exact_mut(SLOT);
        for ((slot, came), link) in slots.zip(&mut self.came).zip(&mut links.data) {
            if *came < self.portion {
                let count = link.read(&mut slot[*came..self.portion])?;
                *came += count;
                moved |= count > 0;
            }
        }
        if self.portion > 0 && self.came.iter().all(|&came| came == self.portion) {
            self.fold()?;
            moved = true;
        }
        for (gone, link) in self.gone.iter_mut().zip(&mut links.data) {
            if *gone < self.folded {
                let end = self.folded.min(*gone + PORTION);
                let count = link.write(&[IoSlice::new(&self.buffer[*gone..end])])?;
                *gone += count;
                moved |= count > 0;
            }
        }
        let done = self.gone.iter().all(|&gone| gone == self.buffer.len());
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        for ((came, gone), link) in self.came.iter().zip(&self.gone).zip(&links.data) {
            fds.extend(link.interest(*came < self.portion, *gone < self.folded));
        }
    }

    fn waits_for(&self) -> usize {
        let late = self.came.iter().position(|&came| came < self.portion);
        let slow = || self.gone.iter().position(|&gone| gone < self.folded);
        late.or_else(slow).map_or(0, |place| place + 1)
    }
}
