//! A job before it runs: what to start, how often, with what, and how long it may take.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::environment::Variables;
use crate::error::StartError;
use crate::escalation::OnFailure;
use crate::launch::launch;
use crate::node::{Backend, Node};
use crate::outcome::Outcome;
use crate::prepare::{Prepared, RankPlan};
use crate::running::Running;
use crate::sink::Sink;

/// Describes a job: `size` processes of one program on this machine.
///
/// Each rank gets the variables of [`environment`](crate::environment), `/dev/null` as standard
/// input (it is in a process group of its own, and reading the terminal from there would freeze
/// it), and pipes as standard output and error.
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
    pub(crate) args: Vec<OsString>,
    pub(crate) rank_args: BTreeMap<usize, Vec<OsString>>,
    pub(crate) variables: Variables,
    pub(crate) rank_variables: BTreeMap<usize, Variables>,
    pub(crate) folder: Option<PathBuf>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) on_failure: OnFailure,
    pub(crate) sink: Option<Box<dyn Sink>>,
    pub(crate) forward_signals: bool,
    pub(crate) bind: bool,
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
            sink: None,
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

    /// Turns this job into one machine's part of a larger one, over tcp. The lines of the ranks and the
    /// variables carry the numbers of the whole; a [`Handle`](crate::Handle), an [`Outcome`] and
    /// what is set for single ranks count on this machine.
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

    /// Sets a variable for every rank. Wins over what the launcher would set.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets a variable for one rank. Wins over [`env`](Self::env).
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

    /// Sets what happens to the others when a rank fails.
    #[must_use]
    pub fn on_failure(mut self, on_failure: OnFailure) -> Self {
        self.on_failure = on_failure;
        self
    }

    /// Sends the ranks' lines here instead of to a [`Terminal`](crate::Terminal).
    #[must_use]
    pub fn sink(mut self, sink: impl Sink + 'static) -> Self {
        self.sink = Some(Box::new(sink));
        self
    }

    /// Takes over `SIGINT`, `SIGTERM` and `SIGHUP` of this process, for good: they stop the job
    /// instead. A signal that this process ignores (under `nohup`, say) stays ignored.
    ///
    /// Without it these signals end this process, and the ranks with it, but there is no
    /// report.
    #[must_use]
    pub fn forward_signals(mut self) -> Self {
        self.forward_signals = true;
        self
    }

    /// Binds each rank to one processor of its own, out of those this process may use; one of each core first.
    ///
    /// Ranks with a single thread then never share a core, which small collectives notice. A rank with several
    /// threads would run them all on that one processor, so this is not the default. Linux only.
    #[must_use]
    pub fn bind_to_processors(mut self) -> Self {
        self.bind = true;
        self
    }

    /// Passes on what this rank writes after 20 ms, without waiting longer for the end of a line: a progress bar moves. The
    /// sink gets such a piece as [`LineEnd::Open`](crate::LineEnd::Open).
    #[must_use]
    pub fn live(mut self, rank: usize) -> Self {
        self.live.insert(rank);
        self
    }

    /// Passes an open descriptor on to one rank, under the same number, and to no other process. The job lets go of it
    /// when the ranks have started. The same one may be passed to several ranks.
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

    fn check(&self) -> Result<(), StartError> {
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

    /// Returns what every rank would be started with, and starts nothing. What is new in every job,
    /// such as names and ports, is an example.
    ///
    /// # Errors
    ///
    /// As for [`start`](Self::start), as far as it can be known without a start.
    pub fn dry_run(&self) -> Result<Vec<RankPlan>, StartError> {
        self.check()?;
        let prepared = Prepared::new(self)?;
        let plans = (0..self.size).map(|rank| prepared.plan(self, rank));
        Ok(plans.collect())
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
    /// The ranks are spawned and supervised by a thread of the job's own, because the parent-death
    /// signal goes by thread: a job may be started from a thread that ends sooner.
    ///
    /// # Errors
    ///
    /// Fails when the program cannot be started; the ranks that did start are ended.
    pub fn start(self) -> Result<Running, StartError> {
        self.check()?;
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
