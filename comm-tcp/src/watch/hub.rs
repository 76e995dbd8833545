//! The thread on rank 0 that owns the watch links and decides the first cause.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, LONGEST_SLEEP};
use rustix::event::PollFd;

use super::log::Log;
use super::signals::Signals;
use super::verdict::{Judge, Ruling};
use super::{next, tell};
use crate::link::{Link, TURN, Wire};
use crate::notice::{Cause, Notice};
use crate::poll::poll_for;
use crate::socket::hang_up;

/// Owns the watch links.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Of each rank, in rank order, as long as it lasts.
    links: Vec<Option<Link>>,
    judge: Judge,
    clock: Clock,
    signals: Arc<Signals>,
    log: Log,
    /// Rank 0 wants to know when all links have been read.
    catching_up: bool,
    /// A rank had said more than was read in its turn.
    behind: bool,
}

impl Hub {
    /// Takes one watch link per rank, in rank order, with the place of its rank for messages.
    pub(crate) fn new(links: Vec<(Wire, String)>, signals: Arc<Signals>) -> Self {
        let (wires, places): (Vec<Wire>, Vec<String>) = links.into_iter().unzip();
        let links = wires.into_iter().enumerate();
        Self {
            links: links
                .map(|(rank, wire)| Some(Link::new(wire, rank)))
                .collect(),
            judge: Judge::new(places),
            clock: Clock::start(),
            signals,
            log: Log::default(),
            catching_up: false,
            behind: false,
        }
    }

    /// Starts the thread; it ends when rank 0 leaves.
    pub(crate) fn start(mut self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("comm-tcp watch".to_owned())
            .spawn(move || self.run())
    }

    fn run(&mut self) {
        while self.links[0].is_some() {
            let now = match self.wait() {
                Ok(now) => now,
                Err(error) => {
                    self.log
                        .write(move || tracing::error!(%error, "the watch cannot poll its links"));
                    break;
                }
            };
            self.behind = false;
            for rank in 0..self.links.len() {
                self.behind |= self.read(rank, now);
            }
            let passed = self.signals.passed.load(Ordering::Relaxed);
            if let Some(ruling) = self.judge.due(now, passed) {
                self.announce(ruling);
            }
            self.caught_up();
            if let Some(warning) = self.judge.warning() {
                self.log.write(move || warning.log());
            }
        }
        for link in self.links.iter().flatten() {
            hang_up(link);
        }
    }

    /// Sleeps until something comes or falls due; returns the time.
    fn wait(&mut self) -> std::io::Result<Instant> {
        let now = self.clock.now();
        let due = self.judge.next_due(now);
        // While no time matters this thread sleeps for as long as nothing comes.
        let limit = (due.is_some() || self.judge.remembers(now))
            .then(|| due.map_or(LONGEST_SLEEP, |due| due.min(LONGEST_SLEEP)));
        let limit = if self.behind {
            Some(Duration::ZERO)
        } else {
            limit
        };
        let links = self.links.iter().flatten();
        let interest = links.filter_map(|link| link.interest(true, link.kept() > 0));
        let mut fds: Vec<PollFd<'_>> = interest.collect();
        poll_for(&mut fds, limit)?;
        Ok(self.clock.waited(limit.unwrap_or(Duration::MAX)))
    }

    /// Reads the notices of one rank, as many as it has in one turn; returns whether there may be more.
    fn read(&mut self, rank: usize, now: Instant) -> bool {
        let size = self.links.len();
        for _ in 0..TURN {
            let Some(link) = &mut self.links[rank] else {
                return false;
            };
            let ruling = match next(link) {
                Ok(None) => return false,
                // Answered when the other links have had their turn, too.
                Ok(Some(Notice::Ping)) if rank == 0 => {
                    self.catching_up = true;
                    None
                }
                Ok(Some(Notice::Ping)) => {
                    tell(link, &Notice::Pong);
                    None
                }
                Ok(Some(notice)) if notice.names().is_some_and(|named| named >= size) => {
                    self.links[rank] = None;
                    let reason = "it named a rank that there is not";
                    self.judge.lose(rank, reason)
                }
                Ok(Some(notice)) => self.judge.hear(rank, notice, now),
                Err(broken) if link.is_altered() => {
                    if let Some(ruling) = self.judge.alter(0, rank, &broken.reason) {
                        self.announce(ruling);
                    }
                    // The other direction may be sound: that rank hears of it, too.
                    self.links[rank].take().iter().for_each(hang_up);
                    None
                }
                Err(broken) => {
                    let unreachable = link.is_unreachable();
                    self.links[rank] = None;
                    if unreachable {
                        self.judge.lose_sight(rank, &broken.reason)
                    } else {
                        self.judge.lose(rank, &broken.reason)
                    }
                }
            };
            if let Some(ruling) = ruling {
                self.announce(ruling);
            }
        }
        true
    }

    /// Answers rank 0, which commits itself to an answer only after it has heard what came before: a turn of each link, which is more
    /// than a rank that keeps to the protocol leaves unread. A rank that floods its link delays nobody, and its own word counts late.
    fn caught_up(&mut self) {
        if std::mem::take(&mut self.catching_up)
            && let Some(link) = &mut self.links[0]
        {
            tell(link, &Notice::Pong);
        }
    }

    /// Tells all ranks first, and the log after that: it may block.
    fn announce(&mut self, ruling: Ruling) {
        let notice = match ruling {
            Ruling::Cause(cause) => Notice::Cause {
                cause,
                answered: self.signals.decide(),
            },
            Ruling::Farewell(sequence) => Notice::Goodbye { sequence },
            Ruling::WaitOn(ranks) => {
                for rank in ranks {
                    if let Some(link) = &mut self.links[rank] {
                        tell(link, &Notice::WaitOn);
                    }
                }
                return;
            }
        };
        // Rank 0 last: once it knows, it may end this process.
        for link in self.links.iter_mut().rev().flatten() {
            tell(link, &notice);
        }
        if let Notice::Cause { cause, .. } = notice {
            self.signals.announced.store(true, Ordering::Release);
            let signals = Arc::clone(&self.signals);
            self.log.write(move || {
                let Cause {
                    kind,
                    rank,
                    message,
                } = &cause;
                tracing::error!(%kind, ?rank, %message, "the job has failed");
                signals.logged.store(true, Ordering::Release);
            });
        }
    }
}

#[cfg(test)]
mod tests;
