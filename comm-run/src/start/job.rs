//! A job before it runs: the program, the number of ranks, their variables, and the limits of the job.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::host::{descriptors, processors};
use crate::output::Sink;
use crate::output::events::Events;
use crate::start::environment::Variables;
use crate::start::error::StartError;
use crate::start::node::{Backend, Node};
use crate::start::prepare::{Prepared, RankPlan};
use crate::supervise::escalation::{Grace, OnFailure};
use crate::supervise::running::{Notice, Notices};
use crate::supervise::running::{Running, launch};
use crate::supervise::signals::Signal;
use crate::verdict::outcome::Outcome;

/// Describes a job: `size` processes of one program on this machine.
///
/// Each rank gets the variables of [`environment`](crate::environment()), `/dev/null` as standard
/// input, and pipes as standard output and error. Its input cannot be the terminal, which stops a
/// process that reads from it in another process group.
///
/// ```
/// use comm_run::{Ending, Job, Line};
/// use std::sync::mpsc;
///
/// let (sender, lines) = mpsc::channel();
/// let outcome = Job::new("sh", 2)
///     .args(["-c", "echo rank $RANK of $WORLD_SIZE"])
///     .sink(move |line: Line<'_>| {
///         let _ = sender.send((line.rank, line.bytes.to_vec()));
///         Ok(())
///     })
///     .timeout(std::time::Duration::from_secs(10))
///     .run()?;
/// assert_eq!(outcome.ending, Ending::Completed);
/// let mut lines: Vec<_> = lines.iter().collect();
/// lines.sort();
/// assert_eq!(lines, [(0, b"rank 0 of 2".to_vec()), (1, b"rank 1 of 2".to_vec())]);
/// # Ok::<(), comm_run::StartError>(())
/// ```
pub struct Job {
    pub(crate) program: OsString,
    pub(crate) size: usize,
    pub(crate) backend: Backend,
    pub(crate) node: Option<Node>,
    pub(super) args: Vec<OsString>,
    pub(super) rank_args: BTreeMap<usize, Vec<OsString>>,
    pub(super) variables: Variables,
    pub(super) rank_variables: BTreeMap<usize, Variables>,
    pub(super) folder: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    pub(crate) grace: Grace,
    pub(crate) max_restarts: usize,
    pub(crate) notices: Notices,
    pub(crate) events: Events,
    pub(crate) sink: Option<Box<dyn Sink>>,
    pub(crate) more_sinks: Vec<Box<dyn Sink>>,
    pub(crate) forward_signals: bool,
    pub(super) bind: bool,
    pub(crate) live: BTreeSet<usize>,
    pub(crate) descriptors: BTreeMap<usize, Vec<Arc<OwnedFd>>>,
}

impl Job {
    /// Describes a job of `size` ranks, all of them `program`.
    #[must_use]
    pub fn new(program: impl Into<OsString>, size: usize) -> Self {
        Self {
            program: program.into(),
            size,
            backend: Backend::default(),
            node: None,
            args: Vec::new(),
            rank_args: BTreeMap::new(),
            variables: Variables::new(),
            rank_variables: BTreeMap::new(),
            folder: None,
            timeout: None,
            on_failure: OnFailure::default(),
            grace: Grace::new(),
            max_restarts: 0,
            notices: Notices::default(),
            events: Events::default(),
            sink: None,
            more_sinks: Vec::new(),
            forward_signals: false,
            bind: false,
            live: BTreeSet::new(),
            descriptors: BTreeMap::new(),
        }
    }

    /// Sets how the ranks reach each other; the default is shared memory.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Self {
        self.backend = backend;
        self
    }

    /// Turns this job into one machine's part of a larger job, over tcp. Lines and variables
    /// number the ranks in the whole job; a [`Handle`](crate::Handle), an [`Outcome`] and the
    /// methods that set something for one rank number them on this machine.
    #[must_use]
    pub fn node(mut self, node: Node) -> Self {
        self.node = Some(node);
        self.backend = Backend::Tcp;
        self
    }

    /// Adds arguments for every rank.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds arguments for one rank, after those of every rank.
    #[must_use]
    pub fn rank_args(
        mut self,
        rank: usize,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        self.rank_args
            .entry(rank)
            .or_default()
            .extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets a variable for every rank. Takes precedence over the launcher's value.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets a variable for one rank. Takes precedence over [`env`](Self::env).
    #[must_use]
    pub fn rank_env(
        mut self,
        rank: usize,
        name: impl Into<OsString>,
        value: impl Into<OsString>,
    ) -> Self {
        self.rank_variables
            .entry(rank)
            .or_default()
            .insert(name.into(), value.into());
        self
    }

    /// Starts the ranks in this folder instead of the current one.
    #[must_use]
    pub fn current_dir(mut self, folder: impl Into<PathBuf>) -> Self {
        self.folder = Some(folder.into());
        self
    }

    /// Ends the job when it takes longer than this.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets what happens to the other ranks when one fails.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sets how long the ranks may take to end after a stop with this signal, before they are killed; 500 ms unless set.
    #[must_use]
    pub fn grace(mut self, signal: Signal, grace: Duration) -> Self {
        self.grace.insert(signal, grace);
        self
    }

    /// Restarts the job when a rank fails, at most this many times, with a new name, port and secret. `COBRE_RESTART` tells the
    /// ranks the number of restarts so far.
    ///
    /// The job is not restarted if it was stopped or timed out, if the cause failed within its first second, or if its exit code
    /// means that it was started wrongly (2, 126, 127). The deadline counts from the first start.
    /// [`Handle::signal`](crate::Handle::signal) reaches the ranks of the last start, and the [`Outcome`] describes them.
    #[must_use]
    pub fn max_restarts(mut self, max_restarts: usize) -> Self {
        self.max_restarts = max_restarts;
        self
    }

    /// Calls `listener` with notices about the running job. The calls happen on the thread that watches the ranks, so they
    /// must return quickly.
    #[must_use]
    pub fn on_notice(mut self, listener: impl FnMut(&Notice<'_>) + Send + 'static) -> Self {
        self.notices = Notices(Some(Box::new(listener)));
        self
    }

    /// Writes the events of the job to `out` as JSON lines with names that never change: `started` or `not_started`, then for each
    /// start `ended`, after `cause` if it did not complete. The README lists their members.
    ///
    /// A separate thread writes each line with one write. If `out` blocks, only the end of the job waits for it, for at most 2 s.
    /// Lines that are not written by then, that exceed 8 MiB of waiting lines, or that follow a failed write, are dropped;
    /// [`Notice::EventsLost`] reports their number at the end of the job.
    #[must_use]
    pub fn events(mut self, out: impl Write + Send + 'static) -> Self {
        self.events = Events::to(out);
        self
    }

    /// Returns how many descriptors a job with this number of ranks opens in this process, at most.
    #[must_use]
    pub fn descriptors(ranks: usize) -> usize {
        descriptors::of_job(ranks)
    }

    /// Makes room for the job's descriptors and for `more` of the caller, for example for logs: raises the limit of this process as
    /// far as needed and allowed by the system. The ranks start with the original limit.
    ///
    /// # Errors
    ///
    /// [`StartError::TooFewDescriptors`] if the system allows fewer.
    pub fn reserve_descriptors(&self, more: usize) -> Result<(), StartError> {
        descriptors::reserve(self.size, more)
    }

    /// Sends the ranks' lines to this sink instead of a [`Terminal`](crate::Terminal).
    #[must_use]
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Sends the ranks' lines to this sink as well, for example to [`Logs`](crate::Logs). Each sink has its own thread, so no
    /// sink waits for another, but the ranks wait for the slowest.
    #[must_use]
    pub fn add_sink(mut self, sink: impl Sink + 'static) -> Self {
        self.more_sinks.push(Box::new(sink));
        self
    }

    /// Takes over the signals of this process permanently: `SIGINT`, `SIGTERM`, `SIGHUP` and `SIGQUIT` stop the job, Ctrl-Z
    /// also stops the ranks until this process is continued, and `SIGUSR1` and `SIGUSR2` go to the ranks. A signal that this process
    /// ignores, for example under `nohup`, stays ignored. As the first process of a container, this process also reaps orphans.
    ///
    /// Without this method these signals end this process, and the ranks with it, but without a
    /// report.
    #[must_use]
    pub fn forward_signals(mut self) -> Self {
        self.forward_signals = true;
        self
    }

    /// Binds each rank to its own processor, among those this process may use: one of each core first, and equally many of
    /// each NUMA node. Consecutive ranks share a node.
    ///
    /// Single-threaded ranks then never share a core while another is idle, which makes small collectives faster. A rank with
    /// several threads would run all of them on one processor, so this is not the default. Linux only.
    #[must_use]
    pub fn bind_to_processors(mut self) -> Self {
        self.bind = true;
        self
    }

    /// Passes on this rank's unfinished lines after 20 ms, whatever the sink's [`patience`](crate::Sink::patience), so that a
    /// progress bar moves. The sink gets such a piece as [`LineEnd::Open`](crate::LineEnd::Open).
    #[must_use]
    pub fn live(mut self, rank: usize) -> Self {
        self.live.insert(rank);
        self
    }

    /// Passes an open descriptor to one rank, under the same number, and to no other process. The job closes its copy
    /// when the ranks have started. One descriptor may be passed to several ranks.
    #[must_use]
    pub fn pass_descriptor(mut self, rank: usize, descriptor: impl Into<Arc<OwnedFd>>) -> Self {
        let passed = self.descriptors.entry(rank).or_default();
        passed.push(descriptor.into());
        self
    }

    /// Returns the number of this machine's first rank in the whole job.
    pub(crate) fn first_rank(&self) -> usize {
        self.node.as_ref().map_or(0, |node| node.node * self.size)
    }

    pub(crate) fn check(&self) -> Result<(), StartError> {
        if self.size == 0 {
            return Err(StartError::NoRanks);
        }
        match self.node {
            Some(Node { node, nodes, .. }) if node >= nodes => {
                Err(StartError::NoSuchNode { node, nodes })
            }
            _ => Ok(()),
        }
    }

    /// Returns what every rank would be started with, without starting anything. Values that are new in every job,
    /// such as names and ports, are examples.
    ///
    /// # Errors
    ///
    /// The errors of [`start`](Self::start) that can be detected without starting a rank.
    pub fn dry_run(&self) -> Result<Vec<RankPlan>, StartError> {
        self.check()?;
        let prepared = Prepared::new(self, 0)?;
        let plans = (0..self.size).map(|rank| prepared.plan(self, rank));
        Ok(plans.collect())
    }

    /// Describes which ranks of this machine would be bound to which processors; `None` if they are not to be bound, or if
    /// there are too few processors.
    #[must_use]
    pub fn binding(&self) -> Option<String> {
        let chosen = self.bind.then(|| processors::choose(self.size))?.ok()?;
        let first = self.first_rank();
        let enough = chosen.len() == self.size;
        enough.then(|| processors::describe(first, &chosen, processors::node))
    }

    /// Starts the job and waits for its end.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start).
    pub fn run(self) -> Result<Outcome, StartError> {
        Ok(self.start()?.wait())
    }

    /// Starts the job. When this returns, every rank is a process that runs the program.
    ///
    /// The job has its own thread that starts and supervises the ranks, because the parent-death signal is sent when the
    /// thread that started them ends: so the caller's thread may end before the job.
    ///
    /// # Errors
    ///
    /// Fails when the program cannot be started; ranks that did start are ended.
    pub fn start(self) -> Result<Running, StartError> {
        launch(self)
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("program", &self.program)
            .field("size", &self.size)
            .field("args", &self.args)
            .field("timeout", &self.timeout)
            .field("on_failure", &self.on_failure)
            .finish_non_exhaustive()
    }
}
