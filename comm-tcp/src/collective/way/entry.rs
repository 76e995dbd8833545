//! The entry round, with which every call begins; the bytes of a small call travel along.
//!
//! Two ranks send each other their entries. With more, every worker sends its entry to rank 0 and
//! waits for the answer. Rank 0 decides when all have entered, and only then, so all decide alike: a
//! refusal wins over a mismatch, the lowest rank wins among several.

mod message;

use std::time::Duration;

use comm_api::FailureKind;
use comm_kit::{Call, words};
use rustix::event::PollFd;

use crate::collective::{Blocks, Failure};
use crate::engine::{Engine, Links, Progress, Task};
use crate::frame::{Header, Kind};
use crate::link::{Broken, Link};
use crate::notice::{Cause, pack};
use crate::patience::poll_for;
use crate::socket::hang_up;
use crate::watch::Outlook;

use message::{Entry, Held};
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
            Kind::Enter
        } else {
            Kind::Answer
        };
        let header = Header::new(Kind::Enter, self.sequence, call, body.len());
        let mut task = Enter {
            at: (self.sequence, call),
            message: Outgoing::new(&header, body),
            answer: Incoming::new(),
            sink,
            expected,
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
            entries: (1..self.size).map(|_| Incoming::new()).collect(),
            order: Vec::with_capacity(self.size),
            looked: false,
        };
        self.drive(call, &mut task)?;
        self.links.order = std::mem::take(&mut task.order);
        let (outcome, refused) = (task.outcome(), task.refused());
        let (kind, body) = match &outcome {
            Entry::Refused { rank, reason } => (Kind::Refused, pack(*rank, reason)),
            Entry::Mismatch { rank, message } => (Kind::Mismatch, pack(*rank, message)),
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
        self.send_to_workers(Kind::Answer, call, refused, body)
    }

    fn send_to_workers<'a>(
        &mut self,
        kind: Kind,
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
            // Whoever refused has left the call and waits for nothing.
            (!refused).then(|| match &frame {
                Some(frame) if std::ptr::eq(body, usual) => Outgoing::whole(frame),
                _ => Outgoing::new(&header(body), body),
            })
        };
        let messages: Vec<_> = refused.iter().zip(1..).map(message).collect();
        let mut lengths = messages.iter().flatten().map(Outgoing::len);
        let long = lengths.any(|length| length > LONG);
        let mut answer = Answer { messages, long };
        let sent = self.drive(call, &mut answer);
        if sent.is_err() {
            // Whoever has not got all of its answer knows that one was on its way, and waits for it.
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
    expected: Kind,
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
                Ok(_) if self.expected == Kind::Answer && self.message.is_sent() => {
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
        Outlook::Entering
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
    Blocks(Blocks<'a>, &'a mut [u8]),
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

/// From how many workers on, whose entries have not come, it is cheaper to ask for all of them at once than to look at each.
const MANY: usize = 16;

/// Collects the entries of all workers, on rank 0.
#[derive(Debug)]
struct Collect<'a> {
    at: (u64, Call),
    contributions: Contributions<'a>,
    /// One per worker, in rank order.
    entries: Vec<Incoming>,
    /// The places of those whose entries have come, in that order.
    order: Vec<usize>,
    /// Every link was looked at, so that from now on a poll alone tells where something is.
    looked: bool,
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

    /// Asks which workers have sent something; `None` if all are to be looked at.
    fn heard(&mut self, links: &Links) -> Option<Vec<bool>> {
        let looked = std::mem::replace(&mut self.looked, true);
        let mut fds = Vec::new();
        self.interest(links, &mut fds);
        if fds.len() < MANY {
            return None;
        }
        poll_for(&mut fds, Some(Duration::ZERO)).ok()?;
        let mut polled = fds.iter().map(|fd| !fd.revents().is_empty());
        let entries = self.entries.iter().zip(&links.data);
        let heard = |(entry, link): (&Incoming, &Link)| {
            let open = entry.entry().is_none();
            open && (polled.next() == Some(true) || !looked && link.may_hold())
        };
        Some(entries.map(heard).collect())
    }

    /// Returns of each worker whether it refused.
    fn refused(&self) -> Vec<bool> {
        let refused = |entry: &Incoming| matches!(entry.entry(), Some(Entry::Refused { .. }));
        self.entries.iter().map(refused).collect()
    }
}

impl Task for Collect<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let mut moved = false;
        let heard = self.heard(links);
        for &place in &links.order {
            let entry = &mut self.entries[place];
            if entry.entry().is_none() && heard.as_ref().is_none_or(|heard| heard[place]) {
                let (link, kind) = (&mut links.data[place], Kind::Enter);
                moved |= match &mut self.contributions {
                    Contributions::Held(length) => {
                        entry.advance(link, kind, self.at, &mut Held(*length))?
                    }
                    others => entry.advance(link, kind, self.at, others.slot(place + 1))?,
                };
                if entry.entry().is_some() {
                    self.order.push(place);
                }
            }
        }
        let done = self.order.len() == self.entries.len();
        Ok(Progress::of(done, moved))
    }

    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>) {
        for (entry, link) in self.entries.iter().zip(&links.data) {
            fds.extend(link.interest(entry.entry().is_none(), false));
        }
    }

    fn outlook(&self) -> Outlook {
        Outlook::Entering
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
    /// Some are long.
    long: bool,
}

impl Task for Answer<'_> {
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken> {
        let mut moved = false;
        let mut done = true;
        for place in in_turn(&links.order, self.long) {
            let message = &mut self.messages[place];
            let Some(open) = message else {
                continue;
            };
            match open.send(&mut links.data[place]) {
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

/// From how many workers on rank 0 answers more of them in a given time than get a turn where they wait.
const CROWD: usize = 32;

/// Up to how many bytes rank 0 lays header and body of an answer side by side, once for all workers: to send two parts
/// costs more, every time.
const SHORT: usize = 16 << 10;

/// From how many bytes on an answer is long: to take it lasts longer than any turn.
const LONG: usize = 48 << 10;

/// Returns in which order to answer those that entered in this order: who entered first does so again in the next call then, and
/// no rank waits for much longer than a call lasts.
///
/// Who shares the processor of rank 0 has entered last, and waits for it now. The others take turns to look. Among very many, one
/// whose turn was just before its answer would let all of them pass, so only every second answer is for one who entered early.
/// With `long` answers the order of the ranks takes a seventh less time there.
fn in_turn(entered: &[usize], long: bool) -> impl Iterator<Item = usize> {
    let count = entered.len();
    (0..count).map(move |turn| match turn % 2 {
        _ if count < CROWD => entered[turn],
        _ if long => turn,
        0 => entered[turn / 2],
        _ => entered[count - 1 - turn / 2],
    })
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Lets workers enter a barrier group by group, rank 0 looking after each.
    fn enter(links: &mut Links, workers: &mut [UnixStream], sequence: u64, groups: &[&[usize]]) {
        let call = Call::barrier();
        let mut collect = Collect {
            at: (sequence, call),
            contributions: Contributions::Nothing,
            entries: workers.iter().map(|_| Incoming::new()).collect(),
            order: Vec::new(),
            looked: false,
        };
        let entry = Header::new(Kind::Enter, sequence, call, 0).encode();
        for (at, group) in groups.iter().enumerate() {
            for &place in *group {
                workers[place].write_all(&entry).unwrap();
            }
            let done = at + 1 == groups.len();
            assert_eq!(collect.advance(links), Ok(Progress::of(done, true)));
        }
        links.order = collect.order;
    }

    #[test]
    fn rank_0_remembers_in_which_order_workers_enter() {
        let (data, mut workers): (_, Vec<_>) = (1..=20).map(Link::pair).unzip();
        let mut links = Links::new(data, None);
        let all: Vec<usize> = (0..20).collect();
        enter(&mut links, &mut workers, 0, &[&all[12..], &all[..12]]);
        let expected: Vec<usize> = (12..20).chain(0..12).collect();
        assert_eq!(links.order, expected);
        // Of those that came between two looks it knows no better than before.
        enter(&mut links, &mut workers, 1, &[&all]);
        assert_eq!(links.order, expected);
        enter(
            &mut links,
            &mut workers,
            2,
            &[&[19], &[3, 0], &all[4..19], &[1, 2]],
        );
        assert_eq!(links.order[..4], [19, 0, 3, 12]);
        assert_eq!(links.order[18..], [1, 2]);
    }

    #[test]
    fn workers_are_answered_as_they_entered_and_among_very_many_from_both_ends() {
        let few = [3, 0, 2, 1];
        for long in [false, true] {
            assert!(in_turn(&few, long).eq(few));
        }
        for count in [CROWD, CROWD + 1] {
            let entered: Vec<usize> = (0..count).rev().collect();
            let mut turns: Vec<usize> = in_turn(&entered, false).collect();
            assert_eq!(turns[..4], [count - 1, 0, count - 2, 1]);
            turns.sort_unstable();
            assert!(turns.into_iter().eq(0..count));
            assert!(in_turn(&entered, true).eq(0..count));
        }
    }
}
