//! The entry round, with which every call begins; the bytes of a small call travel along.
//!
//! Two ranks send each other their entries. With more, every worker sends its entry to rank 0 and
//! waits for the answer. Rank 0 decides when all have entered, and only then, so all decide alike: a
//! refusal wins over a mismatch, the lowest rank wins among several.

mod message;

use comm_api::FailureKind;
use comm_kit::{Call, words};
use rustix::event::PollFd;

use crate::collective::{ByteBlocks, Failure};
use crate::engine::{Engine, Links, Progress, Task};
use crate::frame::{FrameKind, Header};
use crate::link::Broken;
use crate::member::Outlook;
use crate::notice::{Cause, pack};
use crate::socket::hang_up;

use message::{Entry, InInbox};
pub(crate) use message::{Heads, Incoming, Outgoing, Sink};

impl Engine {
    /// Goes through the entry round of a call that carries no bytes in it.
    pub(crate) fn agree(&mut self, call: Call) -> Result<(), Failure> {
        if self.size == 2 || self.rank > 0 {
            return self.enter(call, &[], &mut ());
        }
        let refused = self.collect(call, Contributions::Nothing)?;
        self.answer(call, &refused, |_| &[])
    }

    /// Enters with `body`, on one of two ranks or on a worker; what comes back goes into `sink`.
    pub(crate) fn enter<S: Sink + ?Sized>(
        &mut self,
        call: Call,
        body: &[u8],
        sink: &mut S,
    ) -> Result<(), Failure> {
        if self.rank == 0 {
            // The other rank is through when it has this.
            self.commit()?;
        }
        let expected = if self.size == 2 {
            FrameKind::Enter
        } else {
            FrameKind::Answer
        };
        let header = Header::new(FrameKind::Enter, self.sequence, call, body.len());
        let mut task = Enter {
            at: (self.sequence, call),
            message: Outgoing::new(&header, body),
            answer: Incoming::new(),
            sink,
            expected,
            outlook: self.outlook,
            peer: self.peer(),
        };
        self.drive(call, &mut task)?;
        match task.finish(&mut self.links) {
            None => Ok(()),
            Some(entry) => self.conclude(call, entry),
        }
    }

    /// Waits for all entries, on rank 0, and ends the call on all ranks if they do not agree. Returns
    /// of each worker whether it refused and therefore waits for no answer.
    pub(crate) fn collect(
        &mut self,
        call: Call,
        contributions: Contributions<'_>,
    ) -> Result<Vec<bool>, Failure> {
        let mut task = Collect {
            at: (self.sequence, call),
            contributions,
            outlook: self.outlook,
            entries: (1..self.size).map(|_| Incoming::new()).collect(),
        };
        self.drive(call, &mut task)?;
        let (outcome, refused) = (task.outcome(), task.refused());
        let (kind, body) = match &outcome {
            Entry::Refused { rank, reason } => (FrameKind::Refused, pack(*rank, reason)),
            Entry::Mismatch { rank, message } => (FrameKind::Mismatch, pack(*rank, message)),
            Entry::Agreed | Entry::Differs(_) => return Ok(refused),
        };
        self.send_to_workers(kind, call, &refused, |_| &body)?;
        self.conclude(call, outcome)?;
        Ok(refused)
    }

    /// Answers all workers, on rank 0; `body` returns what each rank gets along.
    pub(crate) fn answer<'a>(
        &mut self,
        call: Call,
        refused: &[bool],
        body: impl Fn(usize) -> &'a [u8],
    ) -> Result<(), Failure> {
        self.send_to_workers(FrameKind::Answer, call, refused, body)
    }

    fn send_to_workers<'a>(
        &mut self,
        kind: FrameKind,
        call: Call,
        refused: &[bool],
        body: impl Fn(usize) -> &'a [u8],
    ) -> Result<(), Failure> {
        self.commit()?;
        let header = |body: &[u8]| Header::new(kind, self.sequence, call, body.len());
        let usual = body(1);
        let short = usual.len() <= SHORT;
        let frame = short.then(|| [&header(usual).encode(), usual].concat());
        let message = |(&refused, rank): (&bool, usize)| {
            let body = body(rank);
            // A rank that refused has left the call and waits for nothing.
            (!refused).then(|| match &frame {
                Some(frame) if std::ptr::eq(body, usual) => Outgoing::whole(frame),
                _ => Outgoing::new(&header(body), body),
            })
        };
        let messages: Vec<_> = refused.iter().zip(1..).map(message).collect();
        let mut answer = Answer { messages };
        let sent = self.drive(call, &mut answer);
        if sent.is_err() {
            // A rank that has only a part of its answer knows that the rest is on its way, and waits for it.
            let links = answer.messages.iter().zip(&self.links.data);
            let cut_short = links.filter(|(message, _)| message.is_some());
            cut_short.for_each(|(_, link)| hang_up(link));
        }
        Ok(sent?)
    }

    #[cold]
    fn conclude(&self, call: Call, entry: Entry) -> Result<(), Failure> {
        let cause = match entry {
            Entry::Agreed => return Ok(()),
            Entry::Refused { rank, reason } => {
                // Rank 0 answers for itself if it names a rank that there is not.
                let rank = if rank < self.size { rank } else { 0 };
                return Err(Failure::Refused { rank, reason });
            }
            Entry::Mismatch { rank, message } => {
                Cause::new(FailureKind::Mismatch, Some(rank), message)
            }
            Entry::Differs(other) => {
                let mut calls = [(self.rank, call), (self.peer(), other)];
                calls.sort_by_key(|&(rank, _)| rank);
                let (rank, message) = words::differing(calls).unzip();
                Cause::new(FailureKind::Mismatch, rank, message.unwrap_or_default())
            }
        };
        Err(Failure::Fatal(cause))
    }
}

/// Sends an entry and reads what comes back, on one of two ranks or on a worker.
#[derive(Debug)]
struct Enter<'a, S: ?Sized> {
    at: (u64, Call),
    message: Outgoing<'a>,
    answer: Incoming,
    sink: &'a mut S,
    /// What an agreeing frame is: the entry of the only other rank, or the answer of rank 0.
    expected: FrameKind,
    /// What it waits for: rank 0 to answer, or the next piece of a call that all have entered.
    outlook: Outlook,
    peer: usize,
}

impl<S: Sink + ?Sized> Enter<'_, S> {
    /// Leaves what was not sent to the link, and returns what was read if the ranks do not agree. What was not even begun is
    /// forgotten: nobody needs it, and it would pile up while the other end refuses call after call.
    fn finish(&mut self, links: &mut Links) -> Option<Entry> {
        let link = &mut links.data[0];
        if !self.message.is_sent() && (self.message.is_begun() || link.is_begun()) {
            self.message.leave(link);
        }
        match self.answer.entry() {
            None | Some(Entry::Agreed) => None,
            Some(other) => Some(other.clone()),
        }
    }
}

impl<S: Sink + ?Sized> Task for Enter<'_, S> {
    #[inline]
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let link = &mut links.data[0];
        if !self.message.is_sent() {
            match self.message.send(link) {
                Ok(0) => {}
                // Rank 0 answers when all have entered, and may be waiting for this processor.
                Ok(_) if self.expected == FrameKind::Answer && self.message.is_sent() => {
                    return Ok(Progress::Stuck);
                }
                // The answer is hardly there yet, and the next look is at once.
                Ok(_) => return Ok(Progress::Moved),
                // The other end may have refused and gone: what it said before is still to be read.
                Err(_) => self.message.give_up(),
            }
        }
        let moved = self
            .answer
            .advance(link, self.expected, self.at, self.sink)?;
        let done = match self.answer.entry() {
            None => false,
            // The only other rank has to learn what this one called, to find that they differ.
            Some(Entry::Agreed | Entry::Differs(_)) => self.message.is_sent(),
            // The sender of this has told the others; nobody needs the rest of these bytes.
            Some(Entry::Refused { .. } | Entry::Mismatch { .. }) => true,
        };
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        let (read, write) = (self.answer.entry().is_none(), !self.message.is_sent());
        fds.extend(links.data[0].interest(read, write));
    }

    fn outlook(&self) -> Outlook {
        self.outlook
    }

    fn waits_for(&self) -> usize {
        self.peer
    }
}

/// Where rank 0 puts what the workers send along.
#[derive(Debug)]
pub(crate) enum Contributions<'a> {
    /// Nothing comes along.
    Nothing,
    /// Each worker's block, into its place.
    Blocks(ByteBlocks<'a>, &'a mut [u8]),
    /// This many bytes of each worker, which stay in the inboxes of their links.
    Held(usize),
    /// One slot of this many bytes per worker, in rank order.
    Slots(usize, &'a mut [u8]),
    /// The bytes of this rank only.
    From(usize, &'a mut [u8]),
}

impl Contributions<'_> {
    fn slot(&mut self, rank: usize) -> &mut [u8] {
        match self {
            Self::Blocks(blocks, recv) => &mut recv[blocks.range(rank)],
            Self::Slots(length, slots) => &mut slots[(rank - 1) * *length..][..*length],
            Self::From(root, buffer) if *root == rank => buffer,
            Self::Nothing | Self::Held(_) | Self::From(..) => &mut [],
        }
    }
}

/// Collects the entries of all workers, on rank 0.
#[derive(Debug)]
struct Collect<'a> {
    at: (u64, Call),
    contributions: Contributions<'a>,
    /// What it waits for: the others to enter, or the next pieces of a call that all have entered.
    outlook: Outlook,
    /// One per worker, in rank order.
    entries: Vec<Incoming>,
}

impl Collect<'_> {
    /// Returns what all entries amount to.
    fn outcome(&self) -> Entry {
        let (_, call) = self.at;
        let entries = || self.entries.iter().filter_map(Incoming::entry);
        if let Some(refusal) = entries().find(|entry| matches!(entry, Entry::Refused { .. })) {
            return refusal.clone();
        }
        let others = entries().zip(1..).map(|(entry, rank)| match entry {
            Entry::Differs(other) => (rank, *other),
            _ => (rank, call),
        });
        match words::differing([(0, call)].into_iter().chain(others)) {
            Some((rank, message)) => Entry::Mismatch { rank, message },
            None => Entry::Agreed,
        }
    }

    /// Returns of each worker whether it refused.
    fn refused(&self) -> Vec<bool> {
        let refused = |entry: &Incoming| matches!(entry.entry(), Some(Entry::Refused { .. }));
        self.entries.iter().map(refused).collect()
    }
}

impl Task for Collect<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let (mut moved, mut done) = (false, true);
        let entries = self.entries.iter_mut().zip(&mut links.data).zip(1..);
        for ((entry, link), rank) in entries {
            if entry.entry().is_some() {
                continue;
            }
            moved |= match &mut self.contributions {
                Contributions::Held(length) => {
                    entry.advance(link, FrameKind::Enter, self.at, &mut InInbox(*length))?
                }
                others => entry.advance(link, FrameKind::Enter, self.at, others.slot(rank))?,
            };
            done &= entry.entry().is_some();
        }
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        for (entry, link) in self.entries.iter().zip(&links.data) {
            fds.extend(link.interest(entry.entry().is_none(), false));
        }
    }

    fn outlook(&self) -> Outlook {
        self.outlook
    }

    fn is_underway(&self) -> bool {
        self.entries.iter().all(Incoming::has_begun)
    }

    fn waits_for(&self) -> usize {
        let mut entries = self.entries.iter();
        let missing = entries.position(|entry| entry.entry().is_none());
        missing.map_or(0, |place| place + 1)
    }
}

/// Sends the answers to all workers that wait for one, on rank 0.
#[derive(Debug)]
struct Answer<'a> {
    /// What is still to be sent, per worker in rank order.
    messages: Vec<Option<Outgoing<'a>>>,
}

impl Task for Answer<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let (mut moved, mut done) = (false, true);
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
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        for (message, link) in self.messages.iter().zip(&links.data) {
            fds.extend(link.interest(false, message.is_some()));
        }
    }

    fn waits_for(&self) -> usize {
        let open = self.messages.iter().position(Option::is_some);
        open.map_or(0, |place| place + 1)
    }
}

/// Up to how many bytes rank 0 lays header and body of an answer side by side, once for all workers: to send two parts
/// costs more, every time.
const SHORT: usize = 16 << 10;
