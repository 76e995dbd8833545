//! What a job tells its owner while it goes on.

use std::fmt;
use std::io;
use std::time::Duration;

use crate::start::error::StartError;
use crate::supervise::signals::Signal;
use crate::verdict::outcome::Outcome;

/// What a job tells its owner while it goes on: see [`Job::on_notice`](crate::Job::on_notice).
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A stop was passed on a second ago, and some ranks still use the time they have.
    Stopping {
        /// The signal that they got.
        signal: Signal,
        /// How many of them are left.
        left: usize,
        /// How much longer they may take.
        grace: Duration,
    },
    /// The terminal has stopped a rank, numbered in the whole job, which is in the background there. Told once for each rank.
    StoppedByTerminal {
        /// The rank.
        rank: usize,
        /// Whether it reads from the terminal (`SIGTTIN`), or changes or writes it (`SIGTTOU`).
        reads: bool,
    },
    /// The job failed, and is started again.
    Restarting {
        /// How it ended.
        outcome: &'a Outcome,
        /// Which restart this is, counted from 1.
        restart: usize,
    },
    /// The job failed, and could not be started again.
    NotRestarted(&'a StartError),
    /// The ranks cannot all reach each other over tcp, so large calls go through rank 0, which is slower.
    NoRing,
    /// Events were not written where [`Job::events`](crate::Job::events) wants them. The last notice of a job.
    EventsLost {
        /// How many.
        lines: usize,
        /// Why the first was not written; `None` if nobody read them.
        error: Option<&'a io::Error>,
    },
}

type Listener = Box<dyn FnMut(&Notice<'_>) + Send>;

/// Who is told.
#[derive(Default)]
pub(crate) struct Notices(pub(crate) Option<Listener>);

impl Notices {
    pub(super) fn tell(&mut self, notice: &Notice<'_>) {
        if let Some(listener) = &mut self.0 {
            listener(notice);
        }
    }
}

impl fmt::Debug for Notices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Notices(..)")
    }
}
