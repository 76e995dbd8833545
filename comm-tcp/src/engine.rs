//! The one loop in which a rank waits: over the links of the call and the watch link, never on one
//! alone.
//!
//! A call is a [`Task`] that moves whatever can be moved whenever it is asked. It reads as long as
//! there is something to read, whether or not it can write. That is why ranks that all send at once
//! never wait for each other in a circle.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comm_kit::clock::{Clock, sleep_limit};
use comm_kit::processors::give_way;
use comm_kit::wait::{Backoff, Pause, Policy};
use comm_kit::{Call, interrupt};
use rustix::event::PollFd;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::collective::Hosts;
use crate::link::{Broken, Link};
use crate::member::{Loss, Member, Outlook, Step, View};
use crate::notice::{Cause, Flow};
use crate::poll::poll_for;
use crate::watch::{CommitWord, Signals, Watcher};

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
    pub(crate) member: Member,
    pub(crate) watcher: Watcher,
    pub(crate) signals: Arc<Signals>,
    /// How to wait, and what was learnt of that.
    pub(crate) awake: Policy,
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
        // Since when nothing had moved at the first look.
        let mut began = None;
        // What had gone and come before the last sleep.
        let mut flow = None;
        loop {
            match task.advance(&mut self.links) {
                Ok(Progress::Done) => {
                    self.awake = backoff.finish();
                    self.member.rest();
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
                    let began = *began.get_or_insert(since);
                    match pause {
                        Pause::Spin => std::hint::spin_loop(),
                        Pause::Yield => give_way(),
                        Pause::Sleep if flow.is_some_and(|flow| flow != self.links.flow()) => {
                            flow = None;
                            backoff.moved();
                        }
                        Pause::Sleep => {
                            flow = Some(self.links.flow());
                            match self.stay(call, task, (now, since, began)) {
                                ControlFlow::Continue(planned) => backoff.slept(planned),
                                ControlFlow::Break(()) => return Err(self.fails()),
                            }
                        }
                    }
                }
                Err(broken) => return Err(self.explain(broken)),
            }
        }
    }

    /// Returns why a link broke, as far as that can be found out.
    #[cold]
    pub(crate) fn explain(&mut self, broken: Broken) -> Cause {
        let loss = |loss| self.links.all().any(|link| link.loss() == loss);
        let loss = [Loss::Altered, Loss::Unreachable]
            .into_iter()
            .find(|&it| loss(it))
            .unwrap_or(Loss::Closed);
        self.member.broke(self.sequence, broken, loss);
        self.fails()
    }

    /// Commits rank 0 to its answer to the current call. From here on the call succeeds on all ranks that
    /// have not given up by themselves; if a cause was decided before, it fails on all.
    pub(crate) fn commit(&mut self) -> Result<(), Cause> {
        if self.member.is_late(uptime()) {
            self.member.ask();
            self.settle();
        }
        if self.signals.answer(self.sequence) {
            return Ok(());
        }
        self.member.await_decision();
        Err(self.fails())
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

    /// Waits in a call; breaks off if it fails.
    #[cold]
    fn stay(
        &mut self,
        call: Call,
        task: &impl Task,
        (now, since, began): (Instant, Instant, Instant),
    ) -> ControlFlow<(), Duration> {
        let ring = self.links.ring.as_ref();
        let view = View {
            sequence: self.sequence,
            call,
            outlook: task.outlook(),
            underway: task.is_underway(),
            waits_for: task.waits_for(),
            flow: ring.map_or(Flow::default(), |ring| Flow {
                next: ring.next.flow(),
                prev: ring.prev.flow(),
            }),
            since,
            began,
        };
        self.step(Some((task, &view)), now)
    }

    /// Returns why the current call fails.
    #[cold]
    fn fails(&mut self) -> Cause {
        self.settle();
        self.member.take_cause()
    }

    /// Waits until nothing is left to wait for outside a call.
    #[cold]
    fn settle(&mut self) {
        let mut clock = Clock::start();
        while let ControlFlow::Continue(planned) = self.step(None, clock.last()) {
            clock.waited(planned);
        }
    }

    /// Does what is due, then sleeps until something may move, something is heard, or a time has come: all waiting is here.
    /// Returns how long that was to take at most, or breaks off if there is nothing to wait for any more.
    #[cold]
    fn step(
        &mut self,
        wait: Option<(&dyn Task, &View)>,
        now: Instant,
    ) -> ControlFlow<(), Duration> {
        let view = wait.map(|(_, view)| view);
        if view.is_none_or(|view| now - view.since >= LONG) {
            self.watcher.mind_silence(&mut self.member);
        }
        let limit = loop {
            match self.member.stuck(view, now) {
                Step::Tell(notice) => self.watcher.tell(&notice),
                Step::Sleep(limit) => break limit,
                Step::Settle => return ControlFlow::Break(()),
            }
        };
        let planned = sleep_limit(limit);
        if self.wait(wait.map(|(task, _)| task), planned) {
            self.watcher.look(&mut self.member);
        }
        if self.member.may_be_interrupted() && interrupt::requested() {
            self.member.interrupted();
        }
        if wait.is_some() && !self.member.is_running() {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(planned)
    }

    /// Polls the watch, and the links of a task; returns whether the watch has something to say.
    fn wait(&self, task: Option<&dyn Task>, limit: Duration) -> bool {
        let mut fds = Vec::new();
        if let Some(task) = task {
            task.interest(&self.links, &mut fds);
        }
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
}

/// Returns how long this machine has been up, times included in which it was suspended.
pub(crate) fn uptime() -> Duration {
    #[cfg(target_os = "linux")]
    const CLOCK: ClockId = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    const CLOCK: ClockId = ClockId::Monotonic;
    let Timespec { tv_sec, tv_nsec } = clock_gettime(CLOCK);
    let seconds = u64::try_from(tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests;
