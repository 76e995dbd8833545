//! The thread on rank 0 that owns the watch links and decides the first cause.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, LONGEST_SLEEP};
use rustix::event::PollFd;

use super::log::Log;
use super::verdict::{Judge, Ruling};
use super::{next, tell};
use crate::link::Link;
use crate::notice::{Cause, Notice};
use crate::patience::poll_for;
use crate::socket::hang_up;

/// What the main thread of rank 0 and the hub tell each other without a message.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// The first sequence that rank 0 has not answered.
    pub(crate) answered: AtomicU64,
    /// The first call that rank 0 is not through with.
    pub(crate) passed: AtomicU64,
    /// A cause was decided and has been sent to all.
    pub(crate) announced: AtomicBool,
    /// So the log says.
    pub(crate) logged: AtomicBool,
}

impl Signals {
    /// Notes that rank 0 has seen all enter call `sequence`.
    pub(crate) fn answer(&self, sequence: u64) {
        self.answered.store(sequence + 1, Ordering::Release);
    }

    /// Notes that answers to call `sequence` that were not sent yet do not come any more.
    pub(crate) fn take_back(&self, sequence: u64) {
        self.answered.fetch_min(sequence, Ordering::Release);
    }
}

/// Owns the watch links.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Of each rank, in rank order, as long as it lasts.
    links: Vec<Option<Link>>,
    judge: Judge,
    clock: Clock,
    signals: Arc<Signals>,
    log: Log,
}

impl Hub {
    /// Takes one watch link per rank, in rank order, with the place of its rank for messages.
    pub(crate) fn new(
        links: Vec<(OwnedFd, String)>,
        timeout: Option<Duration>,
        signals: Arc<Signals>,
    ) -> Self {
        let (fds, places): (Vec<OwnedFd>, Vec<String>) = links.into_iter().unzip();
        let links = fds.into_iter().enumerate();
        Self {
            links: links.map(|(rank, fd)| Some(Link::new(fd, rank))).collect(),
            judge: Judge::new(places, timeout),
            clock: Clock::start(),
            signals,
            log: Log::default(),
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
            for rank in 0..self.links.len() {
                self.read(rank, now);
            }
            let passed = self.signals.passed.load(Ordering::Relaxed);
            if let Some(ruling) = self.judge.due(now, passed) {
                self.announce(ruling);
            }
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
        let links = self.links.iter().flatten();
        let interest = links.filter_map(|link| link.interest(true, link.kept() > 0));
        let mut fds: Vec<PollFd<'_>> = interest.collect();
        poll_for(&mut fds, limit)?;
        Ok(self.clock.waited(limit.unwrap_or(Duration::MAX)))
    }

    /// Reads all notices of one rank.
    fn read(&mut self, rank: usize, now: Instant) {
        loop {
            let Some(link) = &mut self.links[rank] else {
                return;
            };
            let ruling = match next(link) {
                Ok(None) => return,
                Ok(Some(Notice::Ping)) => {
                    tell(link, &Notice::Pong);
                    None
                }
                Ok(Some(notice)) => self.judge.hear(rank, notice, now),
                Err(broken) => {
                    self.links[rank] = None;
                    self.judge.lose(rank, &broken.reason)
                }
            };
            if let Some(ruling) = ruling {
                self.announce(ruling);
            }
        }
    }

    /// Tells all ranks first, and the log after that: it may block.
    fn announce(&mut self, ruling: Ruling) {
        let answered = self.signals.answered.load(Ordering::Acquire);
        let notice = match ruling {
            Ruling::Cause(cause) => Notice::Cause { cause, answered },
            Ruling::Farewell(sequence) => Notice::Goodbye { sequence },
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
