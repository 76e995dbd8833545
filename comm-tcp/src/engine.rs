//! The one loop in which a rank waits: over the links of the call and the watch link, never on one
//! alone.
//!
//! A call is a [`Task`] that moves whatever can be moved whenever it is asked. It reads as long as
//! there is something to read, whether or not it can write. That is why ranks that all send at once
//! never wait for each other in a circle.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use comm_api::FailureKind;
use rustix::event::{PollFd, PollFlags};

use crate::call::Call;
use crate::link::Broken;
use crate::links::{Links, Want};
use crate::notice::{Cause, Notice};
use crate::patience::{Idle, Patience, Pause};
use crate::socket::poll_for;
use crate::variables;
use crate::watch::{Outlook, Signals, Watcher};

/// When a rank that waits tells the watch, so that it knows who is missing.
const SAY_SO: Duration = Duration::from_millis(10);

/// How long the bytes of a call may still come after a rank was lost that may have sent its own.
const GRACE: Duration = Duration::from_millis(50);

/// How long before its timeout a rank asks whether rank 0 is there to decide: this, or a quarter of
/// the timeout if that is less.
const NOTICE: Duration = Duration::from_secs(1);

/// How long a rank whose time is over waits for the verdict of a rank 0 that is there.
const VERDICT: Duration = Duration::from_secs(1);

/// How long rank 0 has at least to say that it is there, however short the timeout.
const ANSWER: Duration = Duration::from_millis(150);

/// What a task did when it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Done,
    Moved,
    Stuck,
}

impl Step {
    /// Something moved, or nothing could.
    pub(crate) fn moved(moved: bool) -> Self {
        if moved { Self::Moved } else { Self::Stuck }
    }
}

/// Moves the bytes of one call.
pub(crate) trait Task {
    /// Moves what can be moved without waiting.
    fn advance(&mut self, links: &mut Links) -> Result<Step, Broken>;

    /// Lists the links on which more could move.
    fn wants(&self, wants: &mut Vec<Want>);

    /// Says whether it waits for ranks to enter, or for bytes.
    fn outlook(&self) -> Outlook;

    /// Names a rank without which it cannot go on.
    fn waits_for(&self) -> usize;
}

/// Holds what one rank needs to run its calls.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// All ranks run on one machine.
    pub(crate) near: bool,
    pub(crate) links: Links,
    pub(crate) watcher: Watcher,
    pub(crate) signals: Arc<Signals>,
    pub(crate) patience: Patience,
    pub(crate) timeout: Option<Duration>,
    /// The number of the current or next call.
    pub(crate) sequence: u64,
    /// The first cause, once a call has failed for good.
    pub(crate) failed: Option<Cause>,
    /// Room for what others contribute to a small reduction.
    pub(crate) scratch: Vec<u8>,
}

/// What has happened in one wait so far.
#[derive(Debug, Default)]
struct Vigil {
    began: Option<Instant>,
    said_so: bool,
    /// When it last said that it is stuck in the middle of a call.
    noted: Option<Instant>,
    asked: Option<Instant>,
    appealed: Option<Instant>,
}

impl Engine {
    /// Runs a task to its end, or to the reason why it has none.
    pub(crate) fn drive(&mut self, call: Call, task: &mut impl Task) -> Result<(), Cause> {
        let mut idle = Idle::new(self.patience);
        let mut vigil = Vigil::default();
        loop {
            match task.advance(&mut self.links) {
                Ok(Step::Done) => {
                    self.patience = idle.finish();
                    return Ok(());
                }
                Ok(Step::Moved) => idle.moved(),
                Ok(Step::Stuck) => {
                    let (pause, since) = idle.pause();
                    vigil.began.get_or_insert(since);
                    match pause {
                        Pause::Spin => std::hint::spin_loop(),
                        Pause::Yield => std::thread::yield_now(),
                        Pause::Sleep => self.sleep(call, task, since, &mut vigil)?,
                    }
                }
                Err(broken) => return Err(self.watcher.judge(&broken, self.sequence)),
            }
        }
    }

    /// Goes on to the next call.
    pub(crate) fn pass(&mut self) {
        self.sequence += 1;
        // Read for a warning only: nothing else hangs on it.
        self.signals.passed.store(self.sequence, Ordering::Relaxed);
    }

    /// Notes that rank 0 has seen all enter the current call.
    pub(crate) fn answered(signals: &Signals, sequence: u64) {
        signals.answered.store(sequence + 1, Ordering::Release);
    }

    /// Sleeps until something may move, something is heard, or a time has come.
    fn sleep(
        &mut self,
        call: Call,
        task: &impl Task,
        since: Instant,
        vigil: &mut Vigil,
    ) -> Result<(), Cause> {
        let outlook = task.outlook();
        let now = Instant::now();
        let mut next: Option<Instant> = None;
        let mut at = |time: Instant| next = Some(next.map_or(time, |next| next.min(time)));

        // The task was asked after the cause was heard, in this call or an earlier one, and could not
        // finish.
        if let Some(doom) = self.watcher.verdict(self.sequence, outlook) {
            let may_finish = outlook == Outlook::Moving && doom.kind == FailureKind::PeerLost;
            if !may_finish || now >= since + GRACE {
                return Err(doom);
            }
            at(since + GRACE);
        }
        let began = match outlook {
            Outlook::Entering => vigil.began.unwrap_or(since),
            Outlook::Moving => since,
        };
        let sequence = self.sequence;
        if outlook == Outlook::Entering && !vigil.said_so {
            if now >= began + SAY_SO {
                self.watcher.tell(&Notice::Waiting { sequence, call });
                vigil.said_so = true;
            } else {
                at(began + SAY_SO);
            }
        }
        if let Some(timeout) = self.timeout
            && let Some(deadline) = began.checked_add(timeout)
        {
            let early = began + timeout.saturating_sub(NOTICE.min(timeout / 4));
            let peer = task.waits_for();
            let stalled = |last| Notice::Stalled {
                sequence,
                peer,
                last,
            };
            if outlook == Outlook::Moving {
                // Again and again, also if a byte moves now and then: the watch tells by it who is
                // stuck behind others from who is not there.
                let pace = (timeout / 8).max(SAY_SO);
                let last = vigil.noted.or(vigil.began).unwrap_or(since);
                if now >= last + pace {
                    self.watcher.tell(&stalled(false));
                    vigil.noted = Some(now);
                }
                at(vigil.noted.unwrap_or(last) + pace);
            }
            if now < early {
                vigil.asked = None;
                at(early);
            } else if now < deadline {
                if vigil.asked.is_none() {
                    vigil.asked = Some(now);
                    self.watcher.ping();
                }
                at(deadline);
            } else if let Some(asked) = vigil.asked
                && self.watcher.is_unanswered()
            {
                if now >= asked + ANSWER {
                    return Err(self.gave_up(0));
                }
                at(asked + ANSWER);
            } else if let Some(appealed) = vigil.appealed {
                if now >= appealed + VERDICT {
                    return Err(self.gave_up(peer));
                }
                at(appealed + VERDICT);
            } else {
                self.watcher.tell(&match outlook {
                    Outlook::Entering => Notice::TimedOut { sequence, call },
                    Outlook::Moving => stalled(true),
                });
                vigil.appealed = Some(now);
                at(now + VERDICT);
            }
        }
        let limit = next.map(|next| next.saturating_duration_since(now));
        if self.wait(task, limit) {
            self.watcher.look();
        }
        Ok(())
    }

    /// Polls the links of the task and the watch; tells whether the watch has something to say.
    fn wait(&self, task: &impl Task, limit: Option<Duration>) -> bool {
        let mut wants = Vec::new();
        task.wants(&mut wants);
        let mut fds = self.links.interest(&wants);
        let watched = self.watcher.is_open();
        if watched {
            fds.push(PollFd::new(&self.watcher, PollFlags::IN));
        }
        if let Err(error) = poll_for(&mut fds, limit) {
            tracing::warn!(%error, "cannot poll");
            std::thread::sleep(Duration::from_millis(1));
        }
        let heard = fds.last().is_some_and(|fd| !fd.revents().is_empty());
        watched && heard
    }

    #[cold]
    fn gave_up(&self, missing: usize) -> Cause {
        let within = self.timeout.unwrap_or_default();
        let name = match missing {
            0 => self.watcher.hub().to_owned(),
            _ => format!("rank {missing}"),
        };
        let message = format!(
            "{name} did not come within {within:?}, nor did rank 0 say why; raise {} if that \
             is too short for the work between two calls (0 waits for ever)",
            variables::TIMEOUT
        );
        Cause::new(FailureKind::TimedOut, Some(missing), message)
    }
}

#[cfg(test)]
mod tests;
