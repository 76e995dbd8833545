//! Which ranks have joined rank 0 so far.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use comm_kit::words;

use super::accept::{Admission, Proven};
use super::{Identity, NOWHERE, number, say, scoped};
use crate::frame::FrameKind;
use crate::handshake::{Hello, LinkKind, SESSION, Status};
use crate::link::{Channel, Link, TURN, Wire};
use crate::notice::{cut, text};

/// How often rank 0 sends the joined ranks a list of the missing ones, which they confirm.
pub(crate) const NEWS: Duration = Duration::from_millis(250);

/// After this silence a worker has lost its seat: a living worker joins again.
const SILENCE: Duration = Duration::from_secs(5);

/// Like [`SILENCE`], if another process wants the seat.
const CONTESTED: Duration = Duration::from_secs(2);

/// Like [`SILENCE`], for a worker that does not listen yet, because its watch link is still to come.
const HALF_SEATED: Duration = Duration::from_secs(10);

/// The seats of all workers: a seat is kept for a rank until its links are complete.
#[derive(Debug)]
pub(crate) struct Seats<'a> {
    identity: &'a Identity,
    /// The seats of rank 1 and up.
    workers: Vec<Seat>,
    /// When the joined workers last got the list of missing ranks.
    told: Option<Instant>,
}

/// The links of one worker, as far as they are there.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    pub(crate) data: Option<Data>,
    pub(crate) watch: Option<Channel>,
    /// When the worker gave its last sign of life.
    heard: Option<Instant>,
    /// Since when another process wants the seat, until its worker answers.
    contested: Option<Instant>,
    /// The address of the last worker that did not stay, and why it left.
    left: Option<(String, String)>,
}

/// The data link of a worker, and its hello.
#[derive(Debug)]
pub(crate) struct Data {
    pub(crate) link: Link,
    pub(crate) hello: Hello,
    pub(crate) address: SocketAddr,
    /// Where the worker found rank 0.
    pub(crate) local: SocketAddr,
}

impl Data {
    fn new(proven: Proven) -> std::io::Result<Self> {
        let Proven {
            hello,
            stream,
            address,
        } = proven;
        let local = stream.local_addr()?;
        let peer = usize::try_from(hello.from).unwrap_or(0);
        Ok(Self {
            link: Link::new(Wire::from(stream), peer),
            hello,
            address,
            local,
        })
    }
}

impl Seat {
    fn is_taken(&self) -> bool {
        self.data.is_some() && self.watch.is_some()
    }

    /// Reads what the worker sends before all ranks are there; returns why the worker is gone, if it is.
    fn read(&mut self, now: Instant) -> Option<String> {
        let data = self.data.as_mut()?;
        for _ in 0..TURN {
            match data.link.frame() {
                Ok(None) => return None,
                Ok(Some((header, _))) if header.kind == FrameKind::Pong => {
                    self.heard = Some(now);
                    self.contested = None;
                }
                Ok(Some((header, body))) if header.kind == FrameKind::Stop => {
                    return Some(text(&body));
                }
                Ok(Some(_)) => return Some("it sent an unexpected frame".to_owned()),
                Err(broken) => return Some(broken.reason),
            }
        }
        None
    }

    /// Returns that the seat is taken, once its worker has answered after another process asked for it.
    fn contest(&mut self, asked: Instant) -> Option<Status> {
        if self.heard.is_some_and(|heard| heard > asked) {
            return Some(Status::Taken);
        }
        self.contested.get_or_insert(asked);
        None
    }

    /// Returns when the worker will have been silent for too long, unless it answers before.
    fn silent_at(&self) -> Option<Instant> {
        let heard = self.heard.filter(|_| self.data.is_some())?;
        let Some(_) = self.watch else {
            return Some(heard + HALF_SEATED);
        };
        let silent = heard + SILENCE;
        Some(
            self.contested
                .map_or(silent, |since| silent.min(since + CONTESTED)),
        )
    }
}

impl<'a> Seats<'a> {
    pub(crate) fn new(identity: &'a Identity) -> Self {
        Self {
            identity,
            workers: (1..identity.size).map(|_| Seat::default()).collect(),
            told: None,
        }
    }

    /// Returns whether all ranks have joined, and each seat has exactly one process.
    pub(crate) fn are_taken(&self) -> bool {
        let settled = |seat: &Seat| seat.is_taken() && seat.contested.is_none();
        self.workers.iter().all(settled)
    }

    /// Returns the ranks that have not joined, and those that joined and left again.
    pub(crate) fn missing(&self) -> (Vec<usize>, Vec<usize>) {
        let empty = (1..self.identity.size).filter(|&rank| !self.workers[rank - 1].is_taken());
        empty.partition(|&rank| self.workers[rank - 1].left.is_none())
    }

    /// Returns which ranks joined and left again, and why the first of them did.
    pub(crate) fn left(&self, ranks: &[usize]) -> String {
        let left = |rank: usize| self.workers[rank - 1].left.as_ref();
        let names = words::ranks_at(ranks, |rank| left(rank).map(|(place, _)| place.as_str()));
        let reason = ranks.first().and_then(|&rank| left(rank));
        let reason = reason.map_or("", |(_, reason)| reason.as_str());
        format!("{names} joined and left again: {reason}")
    }

    /// Sends the joined ranks the list of missing ones.
    pub(crate) fn tell(&mut self, now: Instant) {
        if self.told.is_some_and(|told| now < told + NEWS) {
            return;
        }
        self.told = Some(now);
        let (missing, left) = self.missing();
        let mut news = Vec::new();
        if !missing.is_empty() {
            news.push(format!("{} did not join", words::ranks(&missing)));
        }
        if !left.is_empty() {
            news.push(self.left(&left));
        }
        let news = news.join("; ");
        for seat in self.workers.iter_mut().filter(|seat| seat.is_taken()) {
            if let Some(data) = &mut seat.data {
                // A broken link shows when it is read.
                let _ = say(&mut data.link, FrameKind::Missing, cut(&news).as_bytes());
            }
        }
    }

    /// Notifies the joined ranks that there will be no job.
    pub(crate) fn stop(&mut self, reason: &str) {
        for data in self
            .workers
            .iter_mut()
            .filter_map(|seat| seat.data.as_mut())
        {
            let _ = say(&mut data.link, FrameKind::Stop, cut(reason).as_bytes());
            crate::socket::hang_up(&data.link);
        }
    }

    /// Returns the existing data links, with their positions.
    pub(crate) fn links(&self) -> impl Iterator<Item = (usize, &Link)> {
        let seats = self.workers.iter().enumerate();
        seats.filter_map(|(place, seat)| Some((place, &seat.data.as_ref()?.link)))
    }

    /// Returns when there is something to do even if nothing has arrived.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        let silent = self.workers.iter().filter_map(Seat::silent_at);
        silent.chain(self.told.map(|told| told + NEWS)).min()
    }

    /// Reads what a worker has sent, and frees its seat if it has left.
    pub(crate) fn recheck(&mut self, place: usize, now: Instant) {
        if let Some(reason) = self.workers[place].read(now) {
            self.free(place, reason);
        }
    }

    /// Frees the seats of workers that have been silent for too long.
    pub(crate) fn expire(&mut self, now: Instant) {
        for place in 0..self.workers.len() {
            let silent = |seat: &Seat| seat.silent_at().is_some_and(|at| now >= at);
            if silent(&self.workers[place]) {
                // The worker may have answered just now.
                self.recheck(place, now);
            }
            if silent(&self.workers[place]) {
                self.free(place, "it does not answer".to_owned());
            }
        }
    }

    fn free(&mut self, place: usize, reason: String) {
        let seat = &mut self.workers[place];
        let Some(data) = &seat.data else {
            return;
        };
        let (rank, address) = (place + 1, data.address);
        tracing::warn!(rank, %address, %reason, "a rank left before all had joined");
        *seat = Seat {
            left: Some((address.ip().to_canonical().to_string(), reason)),
            ..Seat::default()
        };
    }

    pub(crate) fn into_seats(self) -> Vec<Seat> {
        self.workers
    }

    /// Returns where rank `of` finds its successor. A loopback address means the machine of rank 0, which
    /// others reach at the address at which they reached rank 0.
    pub(crate) fn successor(&self, of: usize) -> SocketAddr {
        let to = (of + 1) % self.identity.size;
        let data = |rank: usize| self.workers.get(rank.wrapping_sub(1))?.data.as_ref();
        let Some(there) = data(to) else {
            return NOWHERE;
        };
        let mut address = there.hello.ring;
        if let Some(here) = data(of)
            && address.ip().is_loopback()
            && !here.address.ip().to_canonical().is_loopback()
        {
            address.set_ip(here.local.ip().to_canonical());
        }
        if of == self.identity.rank {
            address = scoped(address, there.address);
        }
        address
    }

    /// Counts the ranks on the machine of rank `of`, including itself.
    pub(crate) fn neighbours(&self, of: usize) -> usize {
        let host = |rank: usize| match rank {
            0 => Some(self.identity.host),
            _ => Some(self.workers[rank - 1].data.as_ref()?.hello.host),
        };
        let home = host(of);
        (0..self.identity.size)
            .filter(|&rank| host(rank) == home)
            .count()
    }
}

impl Admission for Seats<'_> {
    fn decide(&mut self, hello: &Hello, asked: Instant, now: Instant) -> Option<Status> {
        if let Some(status) = self.identity.differs(hello) {
            return Some(status);
        }
        let place = usize::try_from(hello.from).unwrap_or(0).wrapping_sub(1);
        if hello.link == LinkKind::Data && place < self.workers.len() {
            self.recheck(place, now);
        }
        let Some(seat) = self.workers.get_mut(place) else {
            return Some(if hello.from == number(self.identity.rank) {
                Status::Taken
            } else {
                Status::NoSuchRank
            });
        };
        Some(match hello.link {
            LinkKind::Data if hello.session != [0; SESSION] => Status::OtherSession,
            LinkKind::Data if seat.data.is_some() => return seat.contest(asked),
            LinkKind::Watch if hello.session != self.identity.session => Status::OtherSession,
            LinkKind::Watch if seat.data.is_none() => Status::NotExpected,
            LinkKind::Watch if seat.watch.is_some() => Status::Taken,
            LinkKind::Data | LinkKind::Watch => Status::Welcome,
            LinkKind::Ring => Status::NotExpected,
        })
    }

    fn keep(&mut self, proven: Proven, now: Instant) {
        let place = usize::try_from(proven.hello.from)
            .unwrap_or(0)
            .wrapping_sub(1);
        let Some(seat) = self.workers.get_mut(place) else {
            return;
        };
        seat.heard = Some(now);
        match proven.hello.link {
            LinkKind::Data => match Data::new(proven) {
                Ok(data) => seat.data = Some(data),
                Err(error) => tracing::warn!(%error, "lost a link"),
            },
            LinkKind::Watch => {
                seat.watch = Some(proven.stream);
                // The worker listens from now on.
                self.told = None;
            }
            LinkKind::Ring => {}
        }
    }
}
