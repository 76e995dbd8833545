//! The one loop in which a rank waits: over the links of the call and the watch link, never on one
//! alone.
//!
//! A call is a [`Task`] that moves whatever can be moved whenever it is asked. It reads as long as
//! there is something to read, whether or not it can write. That is why ranks that all send at once
//! never wait for each other in a circle.

mod timers;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comm_api::FailureKind;
use comm_kit::clock::sleep_limit;
use comm_kit::processors::give_way;
use comm_kit::wait::{Backoff, Pause, Policy};
use comm_kit::{Call, interrupt, words};
use rustix::event::PollFd;

use crate::collective::Hosts;
use crate::link::{Broken, Link};
use crate::notice::{Cause, Flow, Notice};
use crate::poll::poll_for;
use crate::variables;
use crate::watch::{CommitWord, Outlook, Signals, Watcher};

use timers::{Action, Due, Moment, Timers};

/// After how long without a byte a rank looks whether the system of rank 0 still answers.
const LONG: Duration = Duration::from_secs(1);

/// The links of one rank.
#[derive(Debug)]
pub(crate) struct Links {
    /// On rank 0 one link per worker, in rank order; on a worker the one to rank 0.
    pub(crate) data: Vec<Link>,
    /// The ring, if there is one: where bulk goes to and comes from.
    pub(crate) ring: Option<Ring>,
}

/// The links of one rank to its two neighbours.
#[derive(Debug)]
pub(crate) struct Ring {
    pub(crate) next: Link,
    pub(crate) prev: Link,
}

impl Links {
    pub(crate) fn all(&self) -> impl Iterator<Item = &Link> {
        let ring = self.ring.iter().flat_map(|ring| [&ring.next, &ring.prev]);
        self.data.iter().chain(ring)
    }

    /// Returns how many bytes have gone or come so far. It grows also while no byte can be used yet,
    /// because the rest of its record is on its way.
    fn flow(&self) -> u64 {
        let flows = self.all().map(Link::flow);
        flows.fold(0, |all, (sent, received)| all + sent + received)
    }

    /// Returns the ring; that there is one, the way of the call has made sure.
    pub(crate) fn ring(&mut self) -> Result<&mut Ring, Broken> {
        self.ring.as_mut().ok_or_else(|| Broken {
            peer: 0,
            reason: "there is no ring".to_owned(),
        })
    }
}

/// What a task did when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Done,
    Moved,
    Stuck,
}

impl Progress {
    pub(crate) fn of(done: bool, moved: bool) -> Self {
        match (done, moved) {
            (true, _) => Self::Done,
            (false, true) => Self::Moved,
            (false, false) => Self::Stuck,
        }
    }
}

/// Moves the bytes of one call.
pub(crate) trait Task {
    /// Moves what can be moved without waiting.
    fn advance(&mut self, links: &mut Links) -> Result<Progress, Broken>;

    /// Lists what to wait for: the links on which more moves once the other end does its part.
    fn interest<'l>(&self, links: &'l Links, fds: &mut Vec<PollFd<'l>>);

    /// Returns whether it waits for ranks to enter, or for bytes.
    fn outlook(&self) -> Outlook {
        Outlook::Moving
    }

    /// Returns whether all whose bytes it waits for have begun to send them.
    fn is_underway(&self) -> bool {
        true
    }

    /// Returns a rank without which it cannot go on.
    fn waits_for(&self) -> usize;
}

/// What one rank needs to run its calls.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) hosts: Hosts,
    pub(crate) links: Links,
    pub(crate) watcher: Watcher,
    pub(crate) signals: Arc<Signals>,
    /// How to wait, and what was learnt of that.
    pub(crate) awake: Policy,
    pub(crate) timeout: Option<Duration>,
    /// The number of the current or next call.
    pub(crate) sequence: u64,
    /// What an entry round waits for: after the first piece of a call not for ranks to enter, but for bytes.
    pub(crate) outlook: Outlook,
    /// Why a refusal could not be announced, which ends the next call.
    pub(crate) failed: Option<Cause>,
    /// Room for what others contribute, see [`with_scratch`](Self::with_scratch).
    pub(crate) scratch: Vec<u8>,
}

impl Engine {
    /// Runs a task to its end, or to the reason why it has none.
    pub(crate) fn drive(&mut self, call: Call, task: &mut impl Task) -> Result<(), Cause> {
        let mut backoff = Backoff::new(self.awake);
        let mut timers = Timers::new(self.timeout);
        // What had gone and come before the last sleep.
        let mut flow = None;
        loop {
            match task.advance(&mut self.links) {
                Ok(Progress::Done) => {
                    self.awake = backoff.finish();
                    return Ok(());
                }
                Ok(Progress::Moved) => {
                    flow = None;
                    backoff.moved();
                    // Some have entered: those that have not may be waiting for this processor.
                    if !task.is_underway() && backoff.gives_way() {
                        give_way();
                    }
                }
                Ok(Progress::Stuck) if backoff.gives_way() => give_way(),
                Ok(Progress::Stuck) => {
                    let (pause, now, since) = backoff.pause_at();
                    timers.waiting(since);
                    match pause {
                        Pause::Spin => std::hint::spin_loop(),
                        Pause::Yield => give_way(),
                        Pause::Sleep if flow.is_some_and(|flow| flow != self.links.flow()) => {
                            flow = None;
                            backoff.moved();
                        }
                        Pause::Sleep => {
                            flow = Some(self.links.flow());
                            let planned = self.sleep(call, task, (now, since), &mut timers)?;
                            backoff.slept(planned);
                            if interrupt::requested() {
                                return Err(self.watcher.interrupt());
                            }
                        }
                    }
                }
                Err(broken) => return Err(self.explain(&broken)),
            }
        }
    }

    /// Returns why a link broke, as far as that can be found out.
    #[cold]
    pub(crate) fn explain(&mut self, broken: &Broken) -> Cause {
        let altered = self.links.all().any(Link::is_altered);
        let unreachable = self.links.all().any(Link::is_unreachable);
        let silent = self.gave_up(0, Outlook::Entering);
        let how = (altered, unreachable);
        self.watcher
            .explain(broken, self.sequence, how, (self.timeout, silent))
    }

    /// Commits rank 0 to its answer to the current call. From here on the call succeeds on all ranks that
    /// have not given up by themselves; if a cause was decided before, it fails on all.
    pub(crate) fn commit(&mut self) -> Result<(), Cause> {
        self.watcher.catch_up(self.timeout);
        if self.signals.answer(self.sequence) {
            return Ok(());
        }
        Err(self.watcher.decided())
    }

    /// Goes on to the next call.
    pub(crate) fn pass(&mut self) {
        self.sequence += 1;
        // Read for a warning only: nothing else hangs on it.
        self.signals.passed.store(self.sequence, Ordering::Relaxed);
    }

    /// Lends the scratch buffer, with this length, to `run`.
    pub(crate) fn with_scratch<R>(
        &mut self,
        length: usize,
        run: impl FnOnce(&mut Self, &mut Vec<u8>) -> R,
    ) -> R {
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(length, 0);
        let result = run(self, &mut scratch);
        self.scratch = scratch;
        result
    }

    /// Does what is due, then sleeps until something may move, something is heard, or a time has
    /// come; returns how long that was to take at most.
    #[cold]
    fn sleep(
        &mut self,
        call: Call,
        task: &impl Task,
        (now, since): (Instant, Instant),
        timers: &mut Timers,
    ) -> Result<Duration, Cause> {
        let outlook = task.outlook();
        if now - since >= LONG {
            self.watcher.mind_silence();
        }
        let cause = self.watcher.verdict(self.sequence, outlook);
        if self.watcher.waits_on() {
            timers.wait_on(now);
        }
        let mut moment = Moment {
            now,
            since,
            outlook,
            underway: task.is_underway(),
            cause: cause.as_ref().map(|cause| cause.kind),
            unanswered: self.watcher.is_unanswered(),
        };
        let (sequence, peer) = (self.sequence, task.waits_for());
        // Whoever has no timeout is never late, and reports nothing that needs it.
        let timeout = self.timeout.unwrap_or_default();
        let ring = self.links.ring.as_ref();
        let flow = ring.map_or(Flow::default(), |ring| Flow {
            next: ring.next.flow(),
            prev: ring.prev.flow(),
        });
        let stalled = |last| Notice::Stalled {
            sequence,
            peer,
            last,
            timeout,
            flow,
        };
        let limit = loop {
            let action = match timers.due(&moment) {
                Due::Now(action) => action,
                Due::In(limit) => break limit,
            };
            match (action, outlook) {
                (Action::ReportWaiting, _) => {
                    self.watcher.tell(&Notice::Waiting { sequence, call });
                }
                (Action::ReportStalled, _) => self.watcher.tell(&stalled(false)),
                (Action::ReportMoving, _) => {
                    self.watcher.tell(&Notice::Moving { sequence, timeout });
                }
                (Action::Ping, _) => self.watcher.ping(),
                // All wait in this call, and what one of them has begun to send does not come: only rank 0 knows whose that is.
                (Action::Appeal, Outlook::Entering) if self.collects() && moment.underway => {
                    self.watcher.tell(&stalled(true));
                }
                (Action::Appeal, Outlook::Entering) => {
                    if self.collects() {
                        // For the case that all wait in this call, and an entry was lost.
                        self.watcher.tell(&stalled(false));
                    }
                    self.watcher.tell(&Notice::TimedOut {
                        sequence,
                        call,
                        timeout,
                    });
                }
                (Action::Appeal, Outlook::Moving) => self.watcher.tell(&stalled(true)),
                (Action::Fail, _) => {
                    return Err(cause.unwrap_or_else(|| self.gave_up(peer, outlook)));
                }
                (Action::BlameRank0, _) => {
                    let cause = self.gave_up(0, Outlook::Entering);
                    return Err(self.watcher.give_up(cause, self.timeout));
                }
                (Action::BlamePeer, _) => {
                    let cause = self.gave_up(peer, outlook);
                    return Err(self.watcher.give_up(cause, self.timeout));
                }
            }
            moment.unanswered = self.watcher.is_unanswered();
        };
        let planned = sleep_limit(limit);
        if self.wait(task, planned) {
            self.watcher.look();
        }
        Ok(planned)
    }

    /// Returns whether this rank is the one that others send their entries to.
    fn collects(&self) -> bool {
        self.rank == 0 && self.size > 2
    }

    /// Polls the links of the task and the watch; returns whether the watch has something to say.
    fn wait(&self, task: &impl Task, limit: Duration) -> bool {
        let mut fds = Vec::new();
        task.interest(&self.links, &mut fds);
        let links = fds.len();
        self.watcher.interest(&mut fds);
        let behind = self.watcher.is_behind();
        let limit = if behind { Duration::ZERO } else { limit };
        if let Err(error) = poll_for(&mut fds, Some(limit)) {
            tracing::warn!(%error, "cannot poll");
            std::thread::sleep(Duration::from_millis(1));
        }
        behind || fds[links..].iter().any(|fd| !fd.revents().is_empty())
    }

    #[cold]
    fn gave_up(&self, missing: usize, outlook: Outlook) -> Cause {
        let place = |rank| (rank == 0).then(|| self.watcher.place_of_rank_0());
        let rank = words::ranks_at(&[missing], place);
        let message = match outlook {
            Outlook::Entering => words::absent(&rank, self.timeout, variables::TIMEOUT),
            Outlook::Moving => words::stalled(&rank, self.timeout, variables::TIMEOUT),
        };
        Cause::new(FailureKind::TimedOut, Some(missing), message)
    }
}

#[cfg(test)]
mod tests;
