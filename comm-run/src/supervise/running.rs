//! A running job, on its own thread: waiting for it, signalling its ranks, stopping it, and its notices to the
//! owner.

use std::fmt;
use std::io;
use std::sync::mpsc as handover;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::start::error::StartError;
use crate::start::job::Job;
use crate::supervise::attempts::host;
use crate::supervise::ranks::Ranks;
use crate::supervise::signals::{Request, Signal};
use crate::verdict::outcome::Outcome;

/// Starts the job's thread, which starts the ranks, and returns once they run.
pub(crate) fn launch(job: Job) -> Result<Running, StartError> {
    let (report, started) = handover::channel();
    let thread = std::thread::Builder::new()
        .name("comm-run".into())
        .spawn(move || {
            let result = host(job, |handle| report.send(Ok(handle)).is_ok());
            result.map_err(|error| report.send(Err(error))).ok()
        })
        .map_err(StartError::setup("start the job's thread"))?;
    match started.recv() {
        Ok(Ok(handle)) => Ok(Running::new(handle, thread)),
        Ok(Err(error)) => {
            let _ = thread.join();
            Err(error)
        }
        Err(ended) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => Err(StartError::setup("start the ranks")(io::Error::other(
                ended,
            ))),
        },
    }
}

/// A running job. Dropping it ends the job.
#[derive(Debug)]
pub struct Running {
    handle: Handle,
    thread: Option<JoinHandle<Option<Outcome>>>,
}

impl Running {
    pub(super) fn new(handle: Handle, thread: JoinHandle<Option<Outcome>>) -> Self {
        Self {
            handle,
            thread: Some(thread),
        }
    }

    /// Returns a handle for other threads.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the ranks' process ids, in rank order.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.handle.pids()
    }

    /// Waits for the job's end. Blocks; every rank is gone when it returns.
    ///
    /// # Panics
    ///
    /// Passes on a panic of the supervising thread, which would be a bug in this crate.
    #[must_use]
    pub fn wait(mut self) -> Outcome {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(Some(outcome))) => outcome,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            Some(Ok(None)) | None => {
                unreachable!("a started job has an outcome, and is waited for once")
            }
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handle.stop(Signal::Kill);
            // The panic of the thread was already printed; a second panic while dropping would abort.
            let _ = thread.join();
        }
    }
}

/// Reaches a running job from any thread. May outlive the job.
#[derive(Debug, Clone)]
pub struct Handle {
    ranks: Arc<Mutex<Arc<Ranks>>>,
    requests: mpsc::UnboundedSender<Request>,
}

impl Handle {
    pub(super) fn new(ranks: Arc<Ranks>, requests: mpsc::UnboundedSender<Request>) -> Self {
        let ranks = Arc::new(Mutex::new(ranks));
        Self { ranks, requests }
    }

    /// Makes this handle and its clones reach the ranks of the next start.
    pub(super) fn renew(&self, ranks: Arc<Ranks>) {
        *self.ranks.lock().unwrap_or_else(PoisonError::into_inner) = ranks;
    }

    fn ranks(&self) -> Arc<Ranks> {
        Arc::clone(&self.ranks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the ranks' process ids, in rank order; a restart changes them.
    #[must_use]
    pub fn pids(&self) -> Vec<u32> {
        self.ranks().pids()
    }

    /// Sends a signal to one rank's own process, not to its children. The job treats the result as the rank's own failure:
    /// a rank killed this way is the rank that failed.
    ///
    /// # Errors
    ///
    /// Fails when there is no such rank or it is gone. Never reaches another process that
    /// has got the same process id since.
    pub fn signal(&self, rank: usize, signal: Signal) -> io::Result<()> {
        self.ranks().signal(rank, signal)
    }

    /// Ends the job: every rank gets the signal, and `SIGKILL` half a second later, unless [`Job::grace`](crate::Job::grace) allows
    /// more time. A second call with [`Signal::Interrupt`] or [`Signal::Kill`] kills at once. Returns without waiting.
    pub fn stop(&self, signal: Signal) {
        // If the receiver is gone, the job has already ended.
        let _ = self.requests.send(Request::Stop(signal));
    }
}

/// A notice about a running job, see [`Job::on_notice`](crate::Job::on_notice).
#[derive(Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A stop was passed on a second ago, and some ranks still run within their grace period.
    Stopping {
        /// The signal that the ranks got.
        signal: Signal,
        /// How many ranks still run.
        left: usize,
        /// How much longer they may run.
        grace: Duration,
    },
    /// The terminal has stopped a rank, because ranks run in the background of the terminal. Sent once for each rank.
    StoppedByTerminal {
        /// The rank, numbered in the whole job.
        rank: usize,
        /// Whether it reads from the terminal (`SIGTTIN`); otherwise it changes the terminal or writes to it (`SIGTTOU`).
        reads: bool,
    },
    /// The job failed and is restarted.
    Restarting {
        /// How it ended.
        outcome: &'a Outcome,
        /// Which restart this is, counted from 1.
        restart: usize,
    },
    /// The job failed and could not be restarted.
    NotRestarted(&'a StartError),
    /// The ranks cannot all reach each other over tcp, so large calls go through rank 0, which is slower.
    NoRing,
    /// Events were lost that [`Job::events`](crate::Job::events) asks for. The last notice of a job.
    EventsLost {
        /// How many.
        lines: usize,
        /// Why the first was not written; `None` if no reader took it in time.
        error: Option<&'a io::Error>,
    },
}

type Listener = Box<dyn FnMut(&Notice<'_>) + Send>;

/// The owner's listener.
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
