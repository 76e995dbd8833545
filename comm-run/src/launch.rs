//! From a description to processes: starts the ranks of a job on the thread that will watch them.

use std::io::PipeWriter;
use std::os::fd::OwnedFd;
use std::sync::{Arc, mpsc as handover};

use comm_kit::report;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::delivery::Lanes;
use crate::error::StartError;
use crate::escalation::Escalation;
use crate::events::Events;
use crate::forward::forward_signals;
use crate::job::Job;
use crate::notice::{Notice, Notices};
use crate::outcome::{Ending, Outcome};
use crate::prepare::Prepared;
use crate::ranks::Ranks;
use crate::reports::{Inbox, Outbox};
use crate::request::Request;
use crate::restart::{self, Next};
use crate::running::{Handle, Running};
use crate::signal::Signal;
use crate::start::{Passed, Start};
use crate::supervise::{Supervisor, child_exits};
use crate::tasks::Pipes;
use crate::terminal::Terminal;
use crate::warden::Warden;
use crate::{descriptors, orphans, reports};

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
    let mut told = Told {
        events: std::mem::take(&mut job.events),
        notices: std::mem::take(&mut job.notices),
    };
    let checked = job.check();
    let result = checked.and_then(|()| watch(job, started, &mut told));
    if let Err(error) = &result {
        told.events.not_started(error);
    }
    let lost = told.events.finish();
    if lost.lines > 0 {
        told.notices.tell(&Notice::EventsLost {
            lines: lost.lines,
            error: lost.error.as_ref(),
        });
    }
    result
}

/// Who hears of the job while it goes on.
struct Told {
    events: Events,
    notices: Notices,
}

fn watch(
    job: Job,
    started: impl FnOnce(Handle) -> bool,
    told: &mut Told,
) -> Result<Outcome, StartError> {
    descriptors::reserve(job.size, 0)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::setup("watch pipes and timers"))?;
    let outcome = runtime.block_on(attempts(job, started, told));
    // Not the default, which waits.
    runtime.shutdown_background();
    outcome
}

/// Runs the job, and again as often as it may be restarted.
async fn attempts(
    mut job: Job,
    started: impl FnOnce(Handle) -> bool,
    told: &mut Told,
) -> Result<Outcome, StartError> {
    let mut sinks = std::mem::take(&mut job.more_sinks);
    sinks.push(match job.sink.take() {
        Some(sink) => sink,
        None => Box::new(Terminal::new().map_err(StartError::setup("open the terminal"))?),
    });
    let lanes = Lanes::start(sinks).map_err(StartError::setup("start threads"))?;
    let lanes = Arc::new(lanes);
    let (sender, mut requests) = mpsc::unbounded_channel();
    let mut child_exits = child_exits().map_err(StartError::setup("listen for exits"))?;
    if job.forward_signals {
        forward_signals(&sender).map_err(StartError::setup("listen for signals"))?;
    }
    let mut begun = Instant::now();
    let mut deadline = job.timeout.and_then(|timeout| begun.checked_add(timeout));
    let mut current = start_ranks(&job, 0, &sender, &mut requests).await?;
    let handle = Handle::new(Arc::clone(&current.ranks), sender.clone());
    started(handle.clone());
    let mut restart = 0;
    loop {
        let Started {
            ranks,
            pipes,
            reports,
            id,
        } = current;
        let pids = ranks.pids();
        told.events.started(&job, id.as_deref(), restart, &pids);
        let _guard = EndAtPanic(Arc::clone(&ranks));
        if restart == job.max_restarts {
            job.descriptors.clear();
        }
        let mut escalation = Escalation::new(job.on_failure, deadline, job.grace.clone());
        let supervisor = Supervisor {
            ranks,
            started: begun,
            escalation: &mut escalation,
            requests: &mut requests,
            child_exits: &mut child_exits,
            reports,
            notices: &mut told.notices,
            reaps_orphans: job.forward_signals && orphans::are_ours(),
            first_rank: job.first_rank(),
            live: job.live.clone(),
        };
        let mut outcome = supervisor.run(pipes, &lanes).await;
        // Later than before by the time that the job stood still.
        deadline = escalation.deadline();
        outcome.restarts = restart;
        let next = if restart < job.max_restarts {
            restart::after(&outcome)
        } else {
            Next::End
        };
        if let Next::Useless(why) = next {
            outcome.not_restarted = Some(why);
        }
        let again = next == Next::Again;
        told.events.ended(&outcome, again);
        if !again {
            outcome.undelivered = lanes.left();
            return Ok(outcome);
        }
        restart += 1;
        told.notices.tell(&Notice::Restarting {
            outcome: &outcome,
            restart,
        });
        begun = Instant::now();
        current = match start_ranks(&job, restart, &sender, &mut requests).await {
            Ok(started) => started,
            Err(error) => {
                told.notices.tell(&Notice::NotRestarted(&error));
                told.events.not_started(&error);
                outcome.undelivered = lanes.left();
                if let StartError::Stopped { signal, .. } = error {
                    outcome.ending = Ending::Stopped(signal);
                }
                return Ok(outcome);
            }
        };
        handle.renew(Arc::clone(&current.ranks));
    }
}

/// Ranks that run.
struct Started {
    ranks: Arc<Ranks>,
    pipes: Vec<Pipes>,
    reports: Inbox,
    /// What sets this start apart from all others, if this machine knows.
    id: Option<String>,
}

/// Starts every rank or none.
async fn start_ranks(
    job: &Job,
    restart: usize,
    sender: &mpsc::UnboundedSender<Request>,
    requests: &mut mpsc::UnboundedReceiver<Request>,
) -> Result<Started, StartError> {
    // Asked first, because exec would give the same error as for a program that is not there.
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
                pipes.push((leader.stdout, leader.stderr));
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

/// Lets the runtime hear signals, and returns the first that asks for the end. What else is asked for waits until all ranks run.
async fn stop_requested(
    requests: &mut mpsc::UnboundedReceiver<Request>,
    too_early: &mut Vec<Request>,
) -> Option<Signal> {
    // Once for the signal, once for the task that turns it into a request.
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
        .or_insert_with(|| outbox.place(job.first_rank() + rank));
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

/// Ends the ranks when the supervisor panics: a bug there must not leave processes behind.
struct EndAtPanic(Arc<Ranks>);

impl Drop for EndAtPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.kill_and_reap_all();
        }
    }
}
