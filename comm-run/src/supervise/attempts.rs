//! All starts of a job: starts the ranks, watches them to their end, and restarts them as often as that may help.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::host::{descriptors, proc};
use crate::output::delivery::Lanes;
use crate::output::events::Events;
use crate::output::terminal::Terminal;
use crate::start::error::StartError;
use crate::start::job::Job;
use crate::start::{Started, start_ranks};
use crate::supervise::escalation::Escalation;
use crate::supervise::ranks::Ranks;
use crate::supervise::running::Handle;
use crate::supervise::running::{Notice, Notices};
use crate::supervise::signals::forward_signals;
use crate::supervise::{Supervisor, child_exits};
use crate::verdict::outcome::{Ending, NoRestart, Outcome};

/// A job that fails sooner would probably fail again.
const TOO_SOON: Duration = Duration::from_secs(1);
/// The exit codes for wrong usage and for a program that a shell cannot execute or find: the next start would end the same way.
const STARTED_WRONGLY: [i32; 3] = [2, 126, 127];

/// Runs as long as the job: when this thread ends, the kernel sends the parent-death signal to the ranks.
pub(super) fn host(
    mut job: Job,
    started: impl FnOnce(Handle) -> bool,
) -> Result<Outcome, StartError> {
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

/// The listener for notices about the running job.
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
    // Not just dropped: that would wait for blocking tasks.
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
            reaps_orphans: job.forward_signals && proc::orphans_are_ours(),
            first_rank: job.first_rank(),
            live: job.live.clone(),
        };
        let mut outcome = supervisor.run(pipes, &lanes).await;
        // The deadline moves by the time that the job was suspended.
        deadline = escalation.deadline();
        outcome.restarts = restart;
        let next = if restart < job.max_restarts {
            after(&outcome)
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

/// What happens at the end of a job that has restarts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Again,
    /// The job failed, but a restart would not help.
    Useless(NoRestart),
    /// The job did not fail, or was stopped.
    End,
}

/// Returns what happens after this outcome.
fn after(outcome: &Outcome) -> Next {
    let failed = matches!(outcome.ending, Ending::RankFailed(_));
    if !failed || outcome.timed_out || outcome.stopped.is_some() {
        return Next::End;
    }
    let code = outcome.exit_code();
    let first = outcome.first_failure.map(|rank| &outcome.ranks[rank]);
    if STARTED_WRONGLY.contains(&code) {
        Next::Useless(NoRestart::StartedWrongly(code))
    } else if first.is_none_or(|rank| rank.elapsed < TOO_SOON) {
        Next::Useless(NoRestart::TooSoon)
    } else {
        Next::Again
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
