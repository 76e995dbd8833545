//! Turns a description into processes: starts the ranks of a job on the thread that will watch them.
//!
//! | module | what |
//! |---|---|
//! | `job`, `node` | the description |
//! | `prepare` | values that are new in every job: names, port, secret, processors |
//! | `environment` | the variables by which a rank finds its place |
//! | `vfork`, `fork` | starting one process: on Linux, on other systems |
//! | `error` | why a job did not start |

pub(crate) mod environment;
pub(crate) mod error;
#[cfg(not(target_os = "linux"))]
mod fork;
pub(crate) mod job;
pub(crate) mod node;
pub(crate) mod prepare;
#[cfg(target_os = "linux")]
mod vfork;

use std::ffi::OsString;
use std::io::{self, PipeWriter};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use comm_kit::report;
use rustix::process::{Pid, Rlimit};
use tokio::sync::mpsc;

use crate::host::descriptors;
use crate::start::environment::Variables;
use crate::start::error::StartError;
use crate::start::job::Job;
use crate::start::prepare::Prepared;
use crate::supervise::ranks::Ranks;
use crate::supervise::signals::{Request, Signal};
use crate::supervise::warden::Warden;
use crate::verdict::reports::{self, Inbox, Outbox};

/// A descriptor that only one rank inherits, under the same number: in this process it stays close-on-exec.
type Passed = Arc<dyn AsFd + Send + Sync>;

/// Everything that a rank is started with.
struct Start {
    program: OsString,
    args: Vec<OsString>,
    /// All its variables: it inherits no others.
    variables: Variables,
    folder: Option<PathBuf>,
    /// Its standard input.
    null: Arc<OwnedFd>,
    passed: Vec<Passed>,
    /// The processor that all its threads are bound to.
    processor: Option<usize>,
    /// Its limit on descriptors, if it differs from that of this process.
    limit: Option<Rlimit>,
    /// The warden that ends its group when the starter dies.
    warden: Option<Arc<PipeWriter>>,
}

/// The standard output and error of a rank.
pub(crate) type Pipes = (OwnedFd, OwnedFd);

/// A rank that runs its program. It leads its own process group and ends with the starter.
#[derive(Debug)]
struct Leader {
    pid: Pid,
    /// Its output.
    pipes: Pipes,
}

impl Start {
    /// Starts the rank. The parent-death signal fires when the *thread* that calls this ends, so this thread must live as long as
    /// the rank.
    ///
    /// # Errors
    ///
    /// The system's error about the program or its process.
    #[cfg(target_os = "linux")]
    fn spawn(&self) -> io::Result<Leader> {
        vfork::spawn(self)
    }

    #[cfg(not(target_os = "linux"))]
    fn spawn(&self) -> io::Result<Leader> {
        fork::spawn(self)
    }
}

/// Running ranks.
pub(crate) struct Started {
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) pipes: Vec<Pipes>,
    pub(crate) reports: Inbox,
    /// The unique id of this start, if this machine knows it.
    pub(crate) id: Option<String>,
}

/// Starts every rank or none.
pub(crate) async fn start_ranks(
    job: &Job,
    restart: usize,
    sender: &mpsc::UnboundedSender<Request>,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> Result<Started, StartError> {
    // Checked first, because exec would return the same error for a missing program.
    if let Some(folder) = &job.folder
        && let Err(source) = std::fs::metadata(folder.join("."))
    {
        return Err(StartError::Folder {
            folder: folder.clone(),
            source,
        });
    }
    let prepared = Prepared::new(job, restart)?;
    let segment = prepared.segment();
    let first_rank = job.first_rank();
    let (outbox, reports) =
        reports::channel(first_rank, job.size).map_err(StartError::setup("create a pipe"))?;
    let warden =
        Warden::start(segment.path()).map_err(StartError::setup("start /bin/sh as a warden"))?;
    let null = std::fs::File::open("/dev/null").map_err(StartError::setup("open /dev/null"))?;
    let null = Arc::new(OwnedFd::from(null));
    let mut leaders = Vec::with_capacity(job.size);
    let mut pipes = Vec::with_capacity(job.size);
    let mut too_early = Vec::new();
    for rank in 0..job.size {
        let started = match stop_requested(requests, &mut too_early).await {
            Some(signal) => Err(StartError::Stopped {
                signal,
                started: rank,
                ranks: job.size,
            }),
            None => Start {
                warden: warden.as_ref().map(Warden::pipe),
                ..start(job, &prepared, &outbox, &null, rank)
            }
            .spawn()
            .map_err(|source| StartError::Program {
                program: job.program.clone(),
                rank,
                source,
            }),
        };
        match started {
            Ok(leader) => {
                leaders.push(leader.pid);
                pipes.push(leader.pipes);
            }
            Err(error) => {
                Ranks::new(leaders, warden, segment).kill_and_reap_all();
                return Err(error);
            }
        }
    }
    for request in too_early {
        // Cannot fail: the receiver is here.
        let _ = sender.send(request);
    }
    Ok(Started {
        ranks: Arc::new(Ranks::new(leaders, warden, segment)),
        pipes,
        reports,
        id: prepared.id(job),
    })
}

/// Lets the runtime handle signals, and returns the first one that stops the job. Other requests wait until all ranks run.
async fn stop_requested(
    requests: &mut mpsc::UnboundedReceiver<Request>,
    too_early: &mut Vec<Request>,
) -> Option<Signal> {
    // First for the signal, then for the task that turns it into a request.
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
    while let Ok(request) = requests.try_recv() {
        match request {
            Request::Stop(signal) => return Some(signal),
            Request::Pass(_) | Request::Suspend => too_early.push(request),
        }
    }
    None
}

fn start(
    job: &Job,
    prepared: &Prepared,
    outbox: &Outbox,
    null: &Arc<OwnedFd>,
    rank: usize,
) -> Start {
    let mut variables = prepared.variables(job, rank);
    variables
        .entry(report::VARIABLE.into())
        .or_insert_with(|| outbox.variable(job.first_rank() + rank));
    let own_args = job.rank_args.get(&rank).into_iter().flatten();
    let mut passed: Vec<Passed> = vec![Arc::<PipeWriter>::clone(&outbox.pipe)];
    if let Some(listener) = prepared.listener(rank) {
        passed.push(listener);
    }
    for descriptor in job.descriptors.get(&rank).into_iter().flatten() {
        passed.push(Arc::<OwnedFd>::clone(descriptor));
    }
    Start {
        program: job.program.clone(),
        args: job.args.iter().chain(own_args).cloned().collect(),
        variables,
        folder: job.folder.clone(),
        null: Arc::clone(null),
        passed,
        processor: prepared.processor(rank),
        limit: descriptors::of_rank(prepared.links(job, rank)),
        warden: None,
    }
}

#[cfg(test)]
mod tests;
