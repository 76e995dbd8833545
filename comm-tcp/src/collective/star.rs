//! The entry round of three or more ranks: everybody sends to rank 0, rank 0 answers everybody.
//!
//! Rank 0 decides when all have entered, and only then, so all decide alike: a refusal wins over a
//! mismatch, the lowest rank wins among several.

use super::blocks::Blocks;
use super::entry::{Entry, Land, Reading, pack};
use crate::call::Call;
use crate::engine::{Engine, Step, Task};
use crate::frame::{Header, Kind};
use crate::link::Broken;
use crate::links::{Links, Port, Want};
use crate::message::Message;
use crate::watch::{Outlook, Signals, disagreement};

/// Where rank 0 puts what the workers send along.
#[derive(Debug)]
pub(crate) enum Landing<'a> {
    /// Nothing comes along.
    Nothing,
    /// Each worker's block, into its place.
    Blocks(Blocks<'a>, &'a mut [u8]),
    /// One slot of this many bytes per worker, in rank order.
    Slots(usize, &'a mut [u8]),
    /// The bytes of this rank only.
    From(usize, &'a mut [u8]),
}

impl Landing<'_> {
    fn slot(&mut self, rank: usize) -> &mut [u8] {
        match self {
            Self::Blocks(blocks, recv) => &mut recv[blocks.range(rank)],
            Self::Slots(length, slots) => &mut slots[(rank - 1) * *length..][..*length],
            Self::From(root, buffer) if *root == rank => buffer,
            Self::Nothing | Self::From(..) => &mut [],
        }
    }
}

/// Collects the entries of all workers, on rank 0.
#[derive(Debug)]
pub(crate) struct Collect<'a> {
    pub(crate) at: (u64, Call),
    pub(crate) landing: Landing<'a>,
    pub(crate) readings: Vec<Reading>,
}

impl<'a> Collect<'a> {
    pub(crate) fn new(at: (u64, Call), landing: Landing<'a>, size: usize) -> Self {
        Self {
            at,
            landing,
            readings: (1..size).map(|_| Reading::new()).collect(),
        }
    }

    /// Gives what all have to say together.
    pub(crate) fn verdict(&self) -> Entry {
        let (_, call) = self.at;
        let entries = || self.readings.iter().filter_map(Reading::entry);
        if let Some(refusal) = entries().find(|entry| matches!(entry, Entry::Refused { .. })) {
            return refusal.clone();
        }
        let others = entries().zip(1..).map(|(entry, rank)| match entry {
            Entry::Differs(other) => (rank, *other),
            _ => (rank, call),
        });
        match disagreement([(0, call)].into_iter().chain(others)) {
            Some(cause) => Entry::Mismatch {
                rank: cause.rank.unwrap_or(0),
                message: cause.message,
            },
            None => Entry::Agreed,
        }
    }

    /// Tells of each worker whether it refused.
    pub(crate) fn refused(&self) -> Vec<bool> {
        let refused = |reading: &Reading| matches!(reading.entry(), Some(Entry::Refused { .. }));
        self.readings.iter().map(refused).collect()
    }

    fn missing(&self) -> impl Iterator<Item = usize> {
        let readings = self.readings.iter().enumerate();
        let open = readings.filter(|(_, reading)| reading.entry().is_none());
        open.map(|(place, _)| place)
    }
}

impl Task for Collect<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let mut moved = false;
        let mut done = true;
        for (place, reading) in self.readings.iter_mut().enumerate() {
            if reading.entry().is_none() {
                let slot = self.landing.slot(place + 1);
                moved |= reading.advance(&mut links.data[place], Kind::Enter, self.at, slot)?;
                done &= reading.entry().is_some();
            }
        }
        Ok(if done { Step::Done } else { Step::moved(moved) })
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.extend(self.missing().map(|place| Want {
            port: Port::Data(place),
            read: true,
            write: false,
        }));
    }

    fn outlook(&self) -> Outlook {
        Outlook::Entering
    }

    fn waits_for(&self) -> usize {
        self.missing().next().map_or(0, |place| place + 1)
    }
}

/// Sends the answer to all workers that wait for one, on rank 0.
#[derive(Debug)]
pub(crate) struct Answers<'a> {
    messages: Vec<Option<Message<'a>>>,
}

impl<'a> Answers<'a> {
    /// Makes the answers; `body` gives what each rank gets along.
    pub(crate) fn new(
        header: Header,
        body: impl Fn(usize) -> &'a [u8],
        refused: &[bool],
        signals: &Signals,
    ) -> Self {
        Engine::answered(signals, header.sequence);
        let message = |(&refused, rank): (&bool, usize)| {
            // Whoever refused has left the call and waits for nothing.
            (!refused).then(|| {
                let body = body(rank);
                let length = body.len() as u64;
                Message::new(&Header { length, ..header }, body)
            })
        };
        Self {
            messages: refused.iter().zip(1..).map(message).collect(),
        }
    }
}

impl Task for Answers<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let mut moved = false;
        let mut done = true;
        for (message, link) in self.messages.iter_mut().zip(&mut links.data) {
            let Some(open) = message else {
                continue;
            };
            match open.send(link) {
                Ok(count) => moved |= count > 0,
                // It has contributed; that it is gone harms the next call, not this one.
                Err(_) => open.give_up(),
            }
            if open.is_sent() {
                *message = None;
            } else {
                done = false;
            }
        }
        Ok(if done { Step::Done } else { Step::moved(moved) })
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        for (place, message) in self.messages.iter().enumerate() {
            wants.push(Want {
                port: Port::Data(place),
                read: false,
                write: message.is_some(),
            });
        }
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        let open = self.messages.iter().position(Option::is_some);
        open.map_or(0, |place| place + 1)
    }
}

/// Enters a call and waits for the answer, on a worker.
#[derive(Debug)]
pub(crate) struct Ask<'a, L: ?Sized> {
    pub(crate) at: (u64, Call),
    pub(crate) message: Message<'a>,
    pub(crate) reading: Reading,
    pub(crate) land: &'a mut L,
    /// What an agreeing frame is: the answer of rank 0, or the entry of the only other rank.
    pub(crate) kind: Kind,
    pub(crate) peer: usize,
}

impl<'a, L: Land + ?Sized> Ask<'a, L> {
    pub(crate) fn new(at: (u64, Call), body: &'a [u8], land: &'a mut L) -> Self {
        let header = Header::new(Kind::Enter, at.0, at.1, body.len());
        Self {
            at,
            message: Message::new(&header, body),
            reading: Reading::new(),
            land,
            kind: Kind::Answer,
            peer: 0,
        }
    }

    /// Leaves what was not sent to the link, and gives what was read. What was not even begun is
    /// forgotten: nobody needs it, and it would pile up while the other end refuses call after call.
    pub(crate) fn finish(mut self, links: &mut Links) -> Entry {
        if self.message.is_begun() && !self.message.is_sent() {
            self.message.leave(&mut links.data[0]);
        }
        self.reading.entry().cloned().unwrap_or(Entry::Agreed)
    }
}

impl<L: Land + ?Sized> Task for Ask<'_, L> {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let link = &mut links.data[0];
        let mut moved = false;
        if !self.message.is_sent() {
            match self.message.send(link) {
                Ok(count) => moved = count > 0,
                // The other end may have refused and gone: what it said before is still to be read.
                Err(_) => self.message.give_up(),
            }
        }
        moved |= self.reading.advance(link, self.kind, self.at, self.land)?;
        Ok(match self.reading.entry() {
            // The only other rank has to learn what this one called, to find that they differ.
            Some(Entry::Agreed | Entry::Differs(_)) if self.message.is_sent() => Step::Done,
            Some(Entry::Agreed | Entry::Differs(_)) | None => Step::moved(moved),
            // The others are told by whoever said this; nobody needs the rest of these bytes.
            Some(_) => Step::Done,
        })
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.push(Want {
            port: Port::Data(0),
            read: self.reading.entry().is_none(),
            write: !self.message.is_sent(),
        });
    }

    fn outlook(&self) -> Outlook {
        Outlook::Entering
    }

    fn waits_for(&self) -> usize {
        self.peer
    }
}

/// Packs a verdict for the workers, if it is one that ends the call.
pub(crate) fn ending(entry: &Entry, (sequence, call): (u64, Call)) -> Option<(Header, Vec<u8>)> {
    let (kind, body) = match entry {
        Entry::Refused { rank, reason } => (Kind::Refused, pack(*rank, reason)),
        Entry::Mismatch { rank, message } => (Kind::Mismatch, pack(*rank, message)),
        Entry::Agreed | Entry::Differs(_) => return None,
    };
    Some((Header::new(kind, sequence, call, body.len()), body))
}

/// Sends what was kept, to whoever reads, and reads what the others send meanwhile: they may be as
/// far ahead of this rank.
#[derive(Debug)]
pub(crate) struct Flush {
    pub(crate) sequence: u64,
    /// The links on which something is left to send, and the ranks there.
    pub(crate) open: Vec<(usize, usize)>,
}

impl Task for Flush {
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken> {
        let mut moved = false;
        self.open.clear();
        for (place, link) in links.data.iter_mut().enumerate() {
            let before = link.kept();
            link.write(&[])?;
            moved |= link.kept() < before;
            moved |= link.discard_before(self.sequence)?;
            if link.kept() > 0 {
                self.open.push((place, link.peer()));
            }
        }
        Ok(if self.open.is_empty() {
            Step::Done
        } else {
            Step::moved(moved)
        })
    }

    fn wants(&self, wants: &mut Vec<Want>) {
        wants.extend(self.open.iter().map(|&(place, _)| Want {
            port: Port::Data(place),
            read: true,
            write: true,
        }));
    }

    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    fn waits_for(&self) -> usize {
        self.open.first().map_or(0, |&(_, peer)| peer)
    }
}
