//! The thread on rank 1 that decides while rank 0 is stopped.
//!
//! Every rank has a link to it, as to the watch on rank 0, and tells both what ends a job. Whatever the
//! deputy finds it holds back, and asks rank 0 whether it is there. As long as rank 0 answers it is the one
//! who decides; once it has been silent for [`SILENCE`], the deputy does. Rank 0 is told first: what it
//! reads when it goes on is the cause for it, too.

use std::io;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, LONGEST_SLEEP};
use rustix::event::PollFd;

use super::log::Log;
use super::verdict::{Judge, Ruling};
use super::{DEPUTY, next, tell};
use crate::link::{Broken, Link, Wire};
use crate::notice::{Cause, Notice};
use crate::patience::poll_for;
use crate::socket::hang_up;

/// After what silence rank 0 counts as stopped.
const SILENCE: Duration = Duration::from_millis(250);

/// How long after an answer rank 0 is asked again. It decides nothing between a question and the confirmation of
/// its answer, so there must be a time without a question.
const AGAIN: Duration = Duration::from_millis(50);

/// How long a rank 0 that answers has to decide. If it has not by then it knows better: the link between
/// two others may have broken, and both be well.
const FORGOTTEN: Duration = Duration::from_secs(2);

/// Owns the links of the deputy.
#[derive(Debug)]
pub(crate) struct Deputy {
    /// Of each rank, in rank order, as long as it lasts; that of rank 0 leads to its watch.
    links: Vec<Option<Link>>,
    judge: Judge,
    clock: Clock,
    log: Log,
    held: Option<Held>,
    /// All have been told a cause.
    told: bool,
}

/// What the deputy tells unless rank 0 is there to decide.
#[derive(Debug)]
struct Held {
    cause: Cause,
    since: Instant,
    /// When rank 0 was last known to be there.
    heard: Instant,
    /// It has been asked since.
    asked: bool,
}

/// What is to be done about what is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Wait,
    Ask,
    Tell,
    Forget,
}

impl Held {
    fn new(cause: Cause, now: Instant) -> Self {
        Self {
            cause,
            since: now,
            heard: now,
            asked: true,
        }
    }

    fn next_due(&self) -> Instant {
        self.heard + if self.asked { SILENCE } else { AGAIN }
    }

    fn step(&self, now: Instant) -> Step {
        if now >= self.heard + SILENCE {
            Step::Tell
        } else if now >= self.since + FORGOTTEN {
            Step::Forget
        } else if !self.asked && now >= self.heard + AGAIN {
            Step::Ask
        } else {
            Step::Wait
        }
    }
}

impl Deputy {
    /// Takes one link per rank, in rank order, where there is one, with the place of its rank for messages.
    pub(crate) fn new(links: Vec<(Option<Wire>, String)>) -> Self {
        let (wires, places): (Vec<Option<Wire>>, Vec<String>) = links.into_iter().unzip();
        let links = wires.into_iter().enumerate();
        Self {
            links: links
                .map(|(rank, wire)| Some(Link::new(wire?, rank)))
                .collect(),
            judge: Judge::new(places),
            clock: Clock::start(),
            log: Log::default(),
            held: None,
            told: false,
        }
    }

    /// Starts the thread; it ends when rank 1 leaves.
    pub(crate) fn start(mut self) -> io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("comm-tcp deputy".to_owned())
            .spawn(move || self.run())
    }

    fn run(&mut self) {
        while self.links[DEPUTY].is_some() {
            let now = match self.wait() {
                Ok(now) => now,
                Err(error) => {
                    self.log
                        .write(move || tracing::error!(%error, "the deputy cannot poll its links"));
                    break;
                }
            };
            // Rank 0 first: what it says counts.
            for rank in 0..self.links.len() {
                self.read(rank, now);
            }
            // Nobody waits for a rank in a call before that: no warning is due here.
            if let Some(ruling) = self.judge.due(now, u64::MAX) {
                self.hold(ruling, now);
            }
            self.conclude(now);
        }
        for link in self.links.iter().flatten() {
            hang_up(link);
        }
    }

    /// Sleeps until something comes or falls due; returns the time.
    fn wait(&mut self) -> io::Result<Instant> {
        let now = self.clock.now();
        let held = self.held.as_ref().map(Held::next_due);
        let held = held.map(|due| due.saturating_duration_since(now));
        let due = self.judge.next_due(now).into_iter().chain(held).min();
        let limit = due.map(|due| due.min(LONGEST_SLEEP));
        let links = self.links.iter().flatten();
        let interest = links.filter_map(|link| link.interest(true, link.kept() > 0));
        let mut fds: Vec<PollFd<'_>> = interest.collect();
        poll_for(&mut fds, limit)?;
        Ok(self.clock.waited(limit.unwrap_or(Duration::MAX)))
    }

    /// Reads all notices of one rank.
    fn read(&mut self, rank: usize, now: Instant) {
        let size = self.links.len();
        while let Some(link) = &mut self.links[rank] {
            let ruling = match next(link) {
                Ok(None) => return,
                Ok(Some(notice)) if notice.names().is_some_and(|named| named >= size) => {
                    self.end(rank, "it named a rank that there is not")
                }
                Ok(Some(notice)) if rank == 0 => {
                    self.obey(notice, now);
                    None
                }
                Ok(Some(notice)) => self.judge.hear(rank, notice, now),
                Err(broken) if link.is_altered() => self.distrust(rank, broken),
                Err(broken) => self.end(rank, &broken.reason),
            };
            if let Some(ruling) = ruling {
                self.hold(ruling, now);
            }
        }
    }

    /// Takes what the watch on rank 0 says.
    fn obey(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::Pong => {
                if let Some(held) = &mut self.held {
                    (held.heard, held.asked) = (now, false);
                }
                // From now on rank 0 may decide: nothing is told here before it is asked again.
                self.links[0]
                    .iter_mut()
                    .for_each(|link| tell(link, &Notice::Pong));
            }
            // It may have been stopped before it could tell the others.
            Notice::Cause { cause, answered } => self.announce(cause, answered),
            _ => {}
        }
    }

    /// Notes that a link has ended.
    fn end(&mut self, rank: usize, reason: &str) -> Option<Ruling> {
        self.links[rank] = None;
        if rank == 0 {
            // Its links to the others have ended, too: they know.
            self.held = None;
            return None;
        }
        self.judge.lose(rank, reason)
    }

    /// Notes that what came over a link is not what was sent, and tells rank 0.
    fn distrust(&mut self, rank: usize, broken: Broken) -> Option<Ruling> {
        let Broken { peer, reason } = broken;
        let ruling = self.judge.alter(DEPUTY, rank, &reason);
        if let Some(link) = &mut self.links[0] {
            tell(link, &Notice::Altered { peer, reason });
        }
        self.links[rank].take().iter().for_each(hang_up);
        ruling
    }

    /// Holds a cause back, and asks rank 0 whether it is there to decide.
    fn hold(&mut self, ruling: Ruling, now: Instant) {
        if let (Ruling::Cause(cause), Some(link), false) = (ruling, &mut self.links[0], self.told) {
            tell(link, &Notice::Ping);
            self.held = Some(Held::new(cause, now));
        }
    }

    /// Tells what was held back, once rank 0 has been silent for long enough.
    fn conclude(&mut self, now: Instant) {
        let Some(held) = &mut self.held else {
            return;
        };
        match (held.step(now), &mut self.links[0]) {
            (Step::Wait, _) => {}
            (Step::Ask, Some(link)) => {
                held.asked = true;
                tell(link, &Notice::Ping);
            }
            (Step::Tell, Some(_)) => {
                let cause = held.cause.clone();
                // Whatever rank 0 had sent when it stopped has arrived.
                self.announce(cause.clone(), 0);
                self.log.write(move || {
                    let Cause {
                        kind,
                        rank,
                        message,
                    } = &cause;
                    tracing::error!(%kind, ?rank, %message, "the job has failed while rank 0 does not answer");
                });
            }
            (Step::Forget, _) | (_, None) => {
                self.held = None;
                self.judge.reopen();
            }
        }
    }

    /// Tells all ranks, once.
    fn announce(&mut self, cause: Cause, answered: u64) {
        self.held = None;
        if std::mem::replace(&mut self.told, true) {
            return;
        }
        let notice = Notice::Cause { cause, answered };
        // Rank 0 first, so that it cannot go on without having been told; rank 1 last: once it knows, it may
        // end this process.
        let others = (0..self.links.len()).filter(|&rank| rank != DEPUTY);
        for rank in others.chain([DEPUTY]) {
            if let Some(link) = &mut self.links[rank] {
                tell(link, &notice);
            }
        }
    }
}

#[cfg(test)]
mod tests;
