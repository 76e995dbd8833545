//! The thread on rank 0 that owns the watch links and decides the first cause.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, LONGEST_SLEEP};
use rustix::event::PollFd;

use super::bench::{Action, Bench, End};
use super::log::Log;
use super::signals::Signals;
use super::{next, tell};
use crate::link::{Link, TURN, Wire};
use crate::notice::Cause;
use crate::poll::poll_for;
use crate::socket::{Patience, hang_up, leaves_machine, silence};

/// How often it is asked whether a rank that could not be reached has confirmed the cause.
const OWED: Duration = Duration::from_millis(50);

/// Owns the watch links: reads them, lets the bench decide, and does what that asks for.
#[derive(Debug)]
pub(crate) struct Hub {
    /// Of each rank, in rank order, as long as it lasts.
    links: Vec<Option<Link>>,
    bench: Bench<Arc<Signals>>,
    clock: Clock,
    signals: Arc<Signals>,
    log: Log,
    /// Of each rank, whether its link may have more to read.
    readable: Vec<bool>,
    /// The ranks on other machines, and when to look for how long their links have been silent.
    far: Vec<usize>,
    look_at: Instant,
    patience: Patience,
    /// The ranks that could not be reached when they were told the cause, and until when their links are kept.
    owed: Vec<usize>,
    owed_until: Instant,
}

impl Hub {
    /// Takes one watch link per rank, in rank order, with the place of its rank for messages.
    pub(crate) fn new(
        links: Vec<(Wire, String)>,
        signals: Arc<Signals>,
        patience: Patience,
    ) -> Self {
        let (wires, places): (Vec<Wire>, Vec<String>) = links.into_iter().unzip();
        let far = wires.iter().enumerate();
        let far = far.filter(|(_, wire)| leaves_machine(wire));
        let far = far.map(|(rank, _)| rank).collect();
        let clock = Clock::start();
        let links = wires.into_iter().enumerate();
        Self {
            readable: vec![true; places.len()],
            links: links
                .map(|(rank, wire)| Some(Link::new(wire, rank)))
                .collect(),
            bench: Bench::new(places, Arc::clone(&signals), patience),
            look_at: clock.last(),
            owed: Vec::new(),
            owed_until: clock.last(),
            clock,
            signals,
            log: Log::default(),
            far,
            patience,
        }
    }

    /// Starts the thread; it ends when rank 0 leaves, or a little later if a rank that cannot be reached may still come
    /// back and hear the cause. If rank 0 closed its links before that, the system would answer what such a rank says by a
    /// reset, which that rank would take for the end of rank 0.
    pub(crate) fn start(mut self) -> std::io::Result<JoinHandle<()>> {
        std::thread::Builder::new()
            .name("comm-tcp watch".to_owned())
            .spawn(move || self.run())
    }

    fn run(&mut self) {
        while self.links[0].is_some() || self.owes() {
            let now = match self.wait() {
                Ok(now) => now,
                Err(error) => {
                    self.log
                        .write(move || tracing::error!(%error, "the watch cannot poll its links"));
                    break;
                }
            };
            self.read_all(now);
            if self.bench.is_asked() {
                // Rank 0 commits itself to an answer only after it has heard what came before.
                self.readable.fill(true);
                self.read_all(now);
                self.bench.all_read();
            }
            self.mind_silence(now);
            let passed = self.signals.passed.load(Ordering::Relaxed);
            self.bench.due(now, passed);
            self.act();
            if let Some(warning) = self.bench.warning() {
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
        let due = self.bench.next_due(now);
        // While no time matters this thread sleeps for as long as nothing comes.
        let limit = (due.is_some() || self.bench.remembers(now))
            .then(|| due.map_or(LONGEST_SLEEP, |due| due.min(LONGEST_SLEEP)));
        let look = (!self.far.is_empty()).then(|| self.look_at.saturating_duration_since(now));
        let owed = (!self.owed.is_empty()).then_some(OWED);
        let limit = match limit.into_iter().chain(look).chain(owed).min() {
            _ if self.readable.contains(&true) => Some(Duration::ZERO),
            limit => limit,
        };
        let links = self.links.iter().flatten();
        let interest = links.filter_map(|link| link.interest(true, link.kept() > 0));
        let mut fds: Vec<PollFd<'_>> = interest.collect();
        poll_for(&mut fds, limit)?;
        let links = self.links.iter().zip(&mut self.readable);
        let polled = links.filter(|(link, _)| link.is_some()).zip(&fds);
        for ((_, readable), fd) in polled {
            *readable |= !fd.revents().is_empty();
        }
        Ok(self.clock.waited(limit.unwrap_or(Duration::MAX)))
    }

    fn read_all(&mut self, now: Instant) {
        for rank in 0..self.links.len() {
            if self.readable[rank] {
                self.readable[rank] = self.read(rank, now);
            }
        }
    }

    /// Reads the notices of one rank, as many as it has in one turn; returns whether there may be more.
    fn read(&mut self, rank: usize, now: Instant) -> bool {
        for _ in 0..TURN {
            let Some(link) = &mut self.links[rank] else {
                return false;
            };
            match next(link) {
                Ok(None) => return false,
                Ok(Some(notice)) => self.bench.heard(rank, notice, now),
                Err(broken) if link.is_altered() => {
                    self.bench.ended(rank, End::Altered(&broken.reason));
                    self.act();
                    // The other direction may be sound: that rank hears of it, too.
                    self.links[rank].take().iter().for_each(hang_up);
                }
                Err(broken) => {
                    let how = if link.is_unreachable() {
                        End::Unreachable(&broken.reason)
                    } else {
                        End::Closed(&broken.reason)
                    };
                    self.links[rank] = None;
                    self.bench.ended(rank, how);
                }
            }
            self.act();
        }
        true
    }

    /// Looks, now and then, for how long the systems of the other machines have not answered.
    fn mind_silence(&mut self, now: Instant) {
        if self.far.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now + self.patience.pace();
        for &rank in &self.far {
            if let Some(silence) = self.links[rank].as_ref().and_then(silence) {
                self.bench.silent(rank, silence.lasts);
                let left = self.patience.of_the_judge().saturating_sub(silence.lasts);
                if !left.is_zero() {
                    self.look_at = self.look_at.min(now + left);
                }
            }
        }
    }

    /// Returns whether a rank that could not be reached has not confirmed the cause, and may still do so.
    fn owes(&mut self) -> bool {
        if self.clock.now() >= self.owed_until {
            self.owed.clear();
        }
        let links = &self.links;
        self.owed.retain(|&rank| {
            let silence = links[rank].as_ref().and_then(silence);
            silence.is_some_and(|silence| silence.unconfirmed)
        });
        !self.owed.is_empty()
    }

    /// Does what the bench asks for.
    fn act(&mut self) {
        while let Some(action) = self.bench.next() {
            match action {
                Action::Tell(rank, notice) => {
                    if let Some(link) = &mut self.links[rank] {
                        tell(link, &notice);
                    }
                }
                Action::Drop(rank) => self.links[rank] = None,
                Action::Publish(cause) => self.publish(cause),
            }
        }
    }

    /// Tells the log, which may block, after all ranks.
    fn publish(&mut self, cause: Cause) {
        let far = self.far.iter().copied();
        self.owed = far.filter(|&rank| self.bench.is_quiet(rank)).collect();
        self.owed_until = self.clock.now() + self.patience.of_last_words();
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

#[cfg(test)]
mod tests;
