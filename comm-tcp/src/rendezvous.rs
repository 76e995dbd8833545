//! How the ranks find each other, before the first call.
//!
//! ```text
//! worker r                          rank 0                         worker r + 1
//!   data link, handshake ──────────►  keeps the seat
//!   watch link, handshake ─────────►
//!                        (until all seats are taken)
//!   ◄─────────── Missing: the ranks that have not joined
//!   Pong ──────────────────────────►
//!   ◄─────────── Seat: your successor listens there
//!   ring link, handshake ────────────────────────────────────────►
//!   Ring: it stands, or why not ───►
//!   ◄─────────── Start: with the ring or without it, crowded or not
//! ```
//!
//! Each rank needs one thread and one poll. No rank resolves its own name: a worker announces the address
//! from which it reached rank 0.

mod accept;
mod complaints;
mod coordinate;
mod crowd;
mod dial;
mod join;
mod lookup;
mod messages;
mod ring;
mod seats;

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, sleep_limit};
use comm_kit::interrupt;
use rustix::event::{PollFd, PollFlags};

use crate::encryption::Encryption;
use crate::engine::Links;
use crate::error::InitError;
use crate::frame::{FrameKind, Header};
use crate::handshake::{Hello, Keys, LinkKind, NONCE, Session, Status};
use crate::link::{Broken, Link};
use crate::member::Member;
use crate::notice::frame;
use crate::poll::poll_for;
use crate::watch::{Signals, Watcher};

pub(crate) use coordinate::coordinate;
pub(crate) use join::join;

/// What a rank reports about itself in every handshake, and expects of others.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) keys: Keys,
    pub(crate) session: Session,
    pub(crate) job: [u8; 32],
    pub(crate) layout: u8,
    pub(crate) host: u64,
    pub(crate) encryption: Encryption,
    /// Whether there is a secret: without one nothing can be encrypted.
    pub(crate) has_secret: bool,
}

impl Identity {
    /// Creates the hello of a link to rank `to`.
    fn hello(&self, link: LinkKind, to: usize, ring: SocketAddr) -> Hello {
        Hello {
            link,
            layout: self.layout,
            from: number(self.rank),
            to: number(to),
            size: number(self.size),
            host: self.host,
            ring,
            encryption: self.encryption,
            // Known once the link is connected.
            sealed: false,
            local: NOWHERE,
            session: self.session,
            job: self.job,
        }
    }

    /// Returns whether a link must be encrypted; `beyond` if it leaves loopback.
    fn seals(&self, beyond: bool) -> bool {
        self.has_secret && self.encryption.covers(beyond)
    }

    /// Checks the settings that must be the same on all ranks; returns what differs.
    fn differs(&self, hello: &Hello) -> Option<Status> {
        if hello.layout != self.layout {
            Some(Status::OtherLayout)
        } else if hello.job != self.job {
            Some(Status::OtherJob)
        } else if hello.size != number(self.size) {
            Some(Status::OtherSize)
        } else if hello.encryption != self.encryption {
            Some(Status::OtherEncryption)
        } else if hello.from >= hello.size {
            Some(Status::NoSuchRank)
        } else if hello.to != number(self.rank) {
            Some(Status::NotExpected)
        } else {
            None
        }
    }
}

/// The parts of a communicator.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) links: Links,
    pub(crate) watcher: Watcher,
    pub(crate) member: Member,
    /// The watch, on rank 0.
    pub(crate) hub: Option<JoinHandle<()>>,
    pub(crate) signals: Arc<Signals>,
    /// How many ranks share the processors of this one.
    pub(crate) local_ranks: usize,
    /// Whether rank 0 found more ranks on its machine than processors; the same on all ranks.
    pub(crate) crowded: bool,
}

/// The remaining time of a start-up, during which a suspended process loses no time. An interrupted rank has
/// none left.
#[derive(Debug)]
pub(crate) struct Countdown {
    clock: Clock,
    end: Instant,
    is_interrupted: bool,
}

impl Countdown {
    pub(crate) fn new(limit: Duration) -> Self {
        let mut clock = Clock::start();
        let now = clock.now();
        // More than a clock can count is longer than any job.
        let end = now.checked_add(limit).unwrap_or(now + FOR_EVER);
        Self {
            clock,
            end,
            is_interrupted: false,
        }
    }

    fn now(&mut self) -> Instant {
        self.clock.now()
    }

    /// Returns the remaining time.
    fn left(&mut self) -> Duration {
        let now = self.now();
        self.end.saturating_duration_since(now)
    }

    /// Returns when a part of the start-up is over that may take `limit`, but no longer than the whole
    /// start-up.
    fn part(&mut self, limit: Duration) -> Instant {
        self.end.min(self.now() + limit)
    }

    /// Waits for the answer to a question passed to [`ask`]; `None` if the time is over before.
    pub(crate) fn answer<T>(&mut self, answer: &Receiver<T>) -> Option<T> {
        loop {
            let limit = sleep_limit(Some(self.left()));
            let result = answer.recv_timeout(limit);
            self.waited(limit);
            match result {
                Err(RecvTimeoutError::Timeout) if !self.left().is_zero() => {}
                result => return result.ok(),
            }
        }
    }

    /// Polls for at most `limit`; pauses if that fails, so that no loop around it spins.
    fn wait(&mut self, fds: &mut [PollFd<'_>], limit: Duration) {
        let limit = sleep_limit(Some(limit));
        if let Err(error) = poll_for(fds, Some(limit)) {
            tracing::warn!(%error, "cannot poll");
            std::thread::sleep(limit.min(Duration::from_millis(10)));
        }
        self.waited(limit);
    }

    fn waited(&mut self, limit: Duration) {
        let now = self.clock.waited(limit);
        if interrupt::requested() {
            self.is_interrupted = true;
            self.end = now;
        }
    }

    /// Returns why the start of `rank` ended: its interruption, if there was one.
    pub(crate) fn explain(&self, rank: usize, error: InitError) -> InitError {
        if !self.is_interrupted {
            return error;
        }
        let message =
            format!("rank {rank} was interrupted while it waited for the others; restart the job");
        InitError::failed(&[], message)
    }
}

/// Lets a thread make a system call that may take arbitrarily long and cannot be interrupted. The thread ends
/// when the system has answered, even if no one waits for the answer any longer.
pub(crate) fn ask<T: Send + 'static>(
    name: &str,
    question: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(move || drop(sender.send(question())))?;
    Ok(receiver)
}

/// Longer than any job.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 30);

/// Stands for "no address": rank 0 is at the address where the worker found it.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), 0);

/// Completes an address that is valid on one link only, like IPv6 addresses that begin with fe80. Each
/// machine numbers its links by itself, so the link is the one on which `via` was reached.
fn scoped(address: SocketAddr, via: SocketAddr) -> SocketAddr {
    match (address, via) {
        (SocketAddr::V6(address), SocketAddr::V6(via)) if address.ip().is_unicast_link_local() => {
            let (ip, port) = (*address.ip(), address.port());
            SocketAddrV6::new(ip, port, 0, via.scope_id()).into()
        }
        _ => address,
    }
}

fn number(rank: usize) -> u32 {
    u32::try_from(rank).unwrap_or(u32::MAX)
}

fn nonce() -> std::io::Result<[u8; NONCE]> {
    let mut nonce = [0; NONCE];
    getrandom::fill(&mut nonce).map_err(std::io::Error::other)?;
    Ok(nonce)
}

/// Sends a small frame of the start-up. Repeated frames are dropped beyond a limit; a frame that is sent once
/// is kept.
fn say(link: &mut Link, kind: FrameKind, body: &[u8]) -> Result<(), Broken> {
    let bytes = frame(kind, 0, body);
    match kind {
        FrameKind::Missing | FrameKind::Pong => link.offer(&bytes),
        _ => link.keep(&bytes),
    }
    link.write(&[]).map(drop)
}

/// Waits for a small frame of the start-up.
fn hear(link: &mut Link, time: &mut Countdown) -> Result<(Header, Vec<u8>), Broken> {
    loop {
        // First, because there may always be another frame.
        let left = time.left();
        if left.is_zero() {
            return Err(silent_until_the_end(link.peer()));
        }
        if let Some(frame) = link.frame()? {
            return Ok(frame);
        }
        time.wait(&mut [PollFd::new(link, PollFlags::IN)], left);
    }
}

fn silent_until_the_end(peer: usize) -> Broken {
    Broken {
        peer,
        reason: "it sent nothing until the connect timeout".to_owned(),
    }
}

fn unexpected(peer: usize) -> Broken {
    Broken {
        peer,
        reason: "it sent an unexpected frame during the start-up".to_owned(),
    }
}

#[cfg(test)]
mod tests;
