//! From a description to processes: starts the ranks of a job on the thread that will watch them.

use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc as handover};

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::environment::Variables;
use crate::error::StartError;
use crate::escalation::Escalation;
use crate::forward::forward_signals;
use crate::job::Job;
use crate::outcome::Outcome;
use crate::prepare::Prepared;
use crate::ranks::Ranks;
use crate::running::{Handle, Running};
use crate::sink::Sink;
use crate::spawn::{bind, pass_on, tie_to_starter};
use crate::supervise::{Supervisor, child_exits};
use crate::tasks::Pipes;
use crate::terminal::Terminal;
use crate::warden::Warden;

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
        Err(_) => match thread.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(_) => unreachable!("the thread reports before it ends"),
        },
    }
}

/// Lives as long as the job: this is the thread whose end the parent-death signal would announce.
fn host(mut job: Job, started: impl FnOnce(Handle) -> bool) -> Result<Outcome, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::setup("watch pipes and timers"))?;
    let outcome = runtime.block_on(async {
        let sink: Box<dyn Sink> = match job.sink.take() {
            Some(sink) => sink,
            None => Box::new(Terminal::new().map_err(StartError::setup("open the terminal"))?),
        };
        let (stop, stops) = mpsc::unbounded_channel();
        let child_exits = child_exits().map_err(StartError::setup("listen for exits"))?;
        if job.forward_signals {
            forward_signals(&stop).map_err(StartError::setup("listen for signals"))?;
        }
        let now = Instant::now();
        let (ranks, pipes) = start_ranks(&job)?;
        job.descriptors.clear();
        let ranks = Arc::new(ranks);
        let _guard = EndAtPanic(Arc::clone(&ranks));
        started(Handle::new(Arc::clone(&ranks), stop));
        let first_rank = job.first_rank();
        let deadline = job.timeout.and_then(|timeout| now.checked_add(timeout));
        let escalation = Escalation::new(job.on_failure, deadline);
        let supervisor = Supervisor {
            ranks,
            started: now,
            escalation,
            stops,
            child_exits,
            first_rank,
            live: job.live,
        };
        Ok(supervisor.run(pipes, sink).await)
    });
    // Not the default, which waits: a sink may stand still in its thread.
    runtime.shutdown_background();
    outcome
}

/// Starts every rank or none.
fn start_ranks(job: &Job) -> Result<(Ranks, Vec<Pipes>), StartError> {
    // Asked first, because exec would give the same error as for a program that is not there.
    if let Some(folder) = &job.folder
        && let Err(source) = std::fs::metadata(folder.join("."))
    {
        return Err(StartError::Folder {
            folder: folder.clone(),
            source,
        });
    }
    let prepared = Prepared::new(job)?;
    let segment = prepared.segment();
    let warden =
        Warden::start(segment.path()).map_err(StartError::setup("start /bin/sh as a warden"))?;
    let mut leaders = Vec::with_capacity(job.size);
    let mut pipes = Vec::with_capacity(job.size);
    for rank in 0..job.size {
        let mut command = command(job, rank, prepared.variables(job, rank));
        if let Some(listener) = prepared.listener(rank) {
            pass_on(&mut command, listener);
        }
        for descriptor in job.descriptors.get(&rank).into_iter().flatten() {
            pass_on(&mut command, Arc::clone(descriptor));
        }
        if let Some(processor) = prepared.processor(rank) {
            bind(&mut command, processor);
        }
        tie_to_starter(&mut command, warden.as_ref().map(Warden::pipe));
        match command.spawn() {
            Ok(mut leader) => {
                pipes.extend(take_pipes(&mut leader));
                leaders.push(leader);
            }
            Err(source) => {
                let started = Ranks::new(leaders, warden, segment);
                started.kill_and_reap_all();
                return Err(StartError::Program {
                    program: job.program.clone(),
                    rank,
                    source,
                });
            }
        }
    }
    Ok((Ranks::new(leaders, warden, segment), pipes))
}

fn command(job: &Job, rank: usize, variables: Variables) -> Command {
    let mut command = Command::new(&job.program);
    command
        .args(&job.args)
        .args(job.rank_args.get(&rank).into_iter().flatten());
    command.env_clear().envs(variables);
    if let Some(folder) = &job.folder {
        command.current_dir(folder);
    }
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn take_pipes(leader: &mut Child) -> Option<Pipes> {
    Some((leader.stdout.take()?, leader.stderr.take()?))
}

/// Ends the ranks when the supervisor panics: a bug there must not leave processes behind.
struct EndAtPanic(Arc<Ranks>);

impl Drop for EndAtPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill_and_reap_all();
        }
    }
}
