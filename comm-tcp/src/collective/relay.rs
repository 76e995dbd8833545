//! Large calls without a ring: everything through rank 0, as it comes in.
//!
//! Slower than the ring by far, because all bytes of all ranks pass one machine, but right: some
//! networks let every rank reach rank 0 and no other.

use std::io::IoSlice;
use std::ops::Range;

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::fold_into;

use super::entry::Land;
use super::ring::PORTION;
use crate::engine::{Step, Task};
use crate::link::Broken;
use crate::links::{Links, Port, Want};
use crate::watch::Outlook;

/// Sends one buffer to rank 0 while another comes back, on a worker.
#[derive(Debug)]
pub(crate) struct Exchange<'a, L: ?Sized> {
    out: &'a [u8],
    land: &'a mut L,
    gone: usize,
    came: usize,
}

impl<'a, L: Land + ?Sized> Exchange<'a, L> {
    pub(crate) fn new(out: &'a [u8], land: &'a mut L) -> Self {
        Self {
            out,
            land,
            gone: 0,
            came: 0,
        }
    }
}

impl<L: Land + ?Sized> Task for Exchange<'_, L> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let link = &mut links.data[0];
        let end = self.out.len().min(self.gone + PORTION);
        let sent = link.write(&[IoSlice::new(&self.out[self.gone..end])])?;
        self.gone += sent;
        let mut read = 0;
        if self.came < self.land.len() {
            read = link.read(self.land.room(self.came))?;
            self.came += read;
        }
        if self.gone == self.out.len() && self.came == self.land.len() {
            return Ok(Step::Done);
        }
        Ok(Step::moved(sent + read > 0))
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.push(Want {
            port: Port::Data(0),
            read: self.came < self.land.len(),
            write: self.gone < self.out.len(),
        });
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        0
    }
}

/// One stretch of the buffer of rank 0, and how much of it is there.
#[derive(Debug)]
pub(crate) struct Stretch {
    pub(crate) range: Range<usize>,
    /// The rank it comes from.
    pub(crate) from: usize,
    came: usize,
}

impl Stretch {
    pub(crate) fn new(range: Range<usize>, from: usize) -> Self {
        let came = if from == 0 { range.len() } else { 0 };
        Self { range, from, came }
    }

    fn is_there(&self) -> bool {
        self.came == self.range.len()
    }
}

/// Takes stretches from workers and sends each of them to all others, on rank 0.
#[derive(Debug)]
pub(crate) struct Relay<'a> {
    buffer: &'a mut [u8],
    stretches: Vec<Stretch>,
    /// Of each worker, which stretch it is sent and how much of it has gone.
    sinks: Vec<(usize, usize)>,
}

impl<'a> Relay<'a> {
    pub(crate) fn new(buffer: &'a mut [u8], stretches: Vec<Stretch>, size: usize) -> Self {
        Self {
            buffer,
            stretches,
            sinks: vec![(0, 0); size - 1],
        }
    }

    /// Gives what can be sent to a worker now, past stretches that are through or its own.
    fn ready(&self, place: usize) -> (usize, Range<usize>) {
        let (mut at, mut gone) = self.sinks[place];
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

impl Task for Relay<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
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
        for place in 0..self.sinks.len() {
            let (at, part) = self.ready(place);
            if at < self.stretches.len() {
                done = false;
            }
            if !part.is_empty() {
                let gone = part.start - self.stretches[at].range.start;
                let count = links.data[place].write(&[IoSlice::new(&self.buffer[part])])?;
                self.sinks[place] = (at, gone + count);
                moved |= count > 0;
            }
        }
        Ok(if done { Step::Done } else { Step::moved(moved) })
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        for place in 0..self.sinks.len() {
            let (_, part) = self.ready(place);
            let mut stretches = self.stretches.iter();
            wants.push(Want {
                port: Port::Data(place),
                read: stretches.any(|s| s.from == place + 1 && !s.is_there()),
                write: !part.is_empty(),
            });
        }
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        let late = self.stretches.iter().find(|stretch| !stretch.is_there());
        let slow = || {
            let mut sinks = 0..self.sinks.len();
            let slow = sinks.find(|&place| !self.ready(place).1.is_empty());
            slow.map_or(0, |place| place + 1)
        };
        late.map_or_else(slow, |stretch| stretch.from)
    }
}

/// Folds what the workers send, portion by portion in rank order, and sends the results back.
#[derive(Debug)]
pub(crate) struct RelayFold<'a> {
    send: &'a [u8],
    recv: &'a mut [u8],
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

impl<'a> RelayFold<'a> {
    /// `slots` has room for [`SLOT`] bytes of every worker.
    pub(crate) fn new(
        send: &'a [u8],
        recv: &'a mut [u8],
        reduction: (ReduceOp, ScalarKind),
        slots: &'a mut [u8],
    ) -> Self {
        let workers = slots.len() / SLOT;
        Self {
            portion: send.len().min(SLOT),
            send,
            recv,
            reduction,
            slots,
            came: vec![0; workers],
            folded: 0,
            gone: vec![0; workers],
        }
    }

    fn fold(&mut self) -> Result<(), Broken> {
        let (op, scalar) = self.reduction;
        let range = self.folded..self.folded + self.portion;
        let into = &mut self.recv[range.clone()];
        into.copy_from_slice(&self.send[range.clone()]);
        for slot in self.slots.chunks_exact(SLOT) {
            fold_into(into, &slot[..self.portion], scalar, op).map_err(|error| Broken {
                peer: 0,
                reason: error.to_string(),
            })?;
        }
        self.folded = range.end;
        self.portion = (self.send.len() - self.folded).min(SLOT);
        self.came.fill(0);
        Ok(())
    }
}

impl Task for RelayFold<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
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
                let count = link.write(&[IoSlice::new(&self.recv[*gone..end])])?;
                *gone += count;
                moved |= count > 0;
            }
        }
        if self.gone.iter().all(|&gone| gone == self.send.len()) {
            return Ok(Step::Done);
        }
        Ok(Step::moved(moved))
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        for (place, (came, gone)) in self.came.iter().zip(&self.gone).enumerate() {
            wants.push(Want {
                port: Port::Data(place),
                read: *came < self.portion,
                write: *gone < self.folded,
            });
        }
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        let late = self.came.iter().position(|&came| came < self.portion);
        let slow = || self.gone.iter().position(|&gone| gone < self.folded);
        late.or_else(slow).map_or(0, |place| place + 1)
    }
}
