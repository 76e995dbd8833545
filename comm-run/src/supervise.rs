//! A job after its start: one loop that handles every exit, signal and timer.
//!
//! Architecture invariant: nothing in this loop blocks, except Ctrl-Z, which stops the whole process. All output goes
//! through a `Lane`, so a blocked terminal cannot delay a deadline or a Ctrl-C.
//!
//! | module | what |
//! |---|---|
//! | `running` | the job's thread, the handles that reach it, and the notices to its owner |
//! | `attempts` | the starts of a job, and whether another one makes sense |
//! | `ranks` | the processes: looking at them, signalling them, reaping them |
//! | `tasks` | the tasks beside the loop: two readers and a reaper for each rank |
//! | `escalation` | how a job is ended: when which signal is due |
//! | `signals`, `suspend` | signals and Ctrl-Z that reach the launcher |
//! | `warden` | cleaning up when the launcher is killed |

mod attempts;
pub(crate) mod escalation;
pub(crate) mod ranks;
pub(crate) mod running;
pub(crate) mod signals;
mod suspend;
pub(crate) mod tasks;
pub(crate) mod warden;

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use comm_kit::report::Report;
use rustix::process::Signal as Raw;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::output::delivery::Lanes;
use crate::start::Pipes;
use crate::supervise::escalation::Escalation;
use crate::supervise::ranks::{Look, Ranks};
use crate::supervise::running::{Notice, Notices};
use crate::supervise::signals::{Request, Signal};
use crate::supervise::suspend::suspend;
use crate::supervise::tasks::{Event, RankTasks, start_all};
use crate::verdict::judge;
use crate::verdict::outcome::{Exit, Outcome, RankOutcome};
use crate::verdict::reports::Inbox;

/// How often the loop looks for exits without `SIGCHLD`: a program that uses this library may have blocked the signal
/// or installed its own handler.
const LOOK: Duration = Duration::from_millis(200);

/// How long after a stop the user gets a notice that ranks still run; most have ended by then.
const REMIND: Duration = Duration::from_secs(1);

/// Why the loop runs again.
#[derive(Debug)]
enum Wake {
    Look,
    Clock,
    Request(Request),
    Event(Event),
}

/// One rank as the loop sees it.
#[derive(Debug)]
struct Watched {
    tasks: RankTasks,
    exit: Option<Exit>,
    ended_by: Option<Signal>,
    elapsed: Option<Duration>,
    reaped: bool,
    /// Whether the user was notified that the terminal has stopped it.
    mentioned: bool,
}

impl Watched {
    fn new(tasks: RankTasks) -> Self {
        Self {
            tasks,
            exit: None,
            ended_by: None,
            elapsed: None,
            reaped: false,
            mentioned: false,
        }
    }
}

struct Supervisor<'a> {
    ranks: Arc<Ranks>,
    started: Instant,
    escalation: &'a mut Escalation,
    /// Requests from handles and forwarded signals.
    requests: &'a mut mpsc::UnboundedReceiver<Request>,
    /// Created before the first rank starts, so that no exit is missed.
    child_exits: &'a mut SignalStream,
    /// The reports of the ranks.
    reports: Inbox,
    notices: &'a mut Notices,
    /// Whether this process adopts the orphans of its container and must reap them.
    reaps_orphans: bool,
    /// The number of the first of these ranks in the whole job.
    first_rank: usize,
    /// The ranks, numbered on this machine, whose unfinished lines are passed on.
    live: BTreeSet<usize>,
}

impl Supervisor<'_> {
    /// Follows the job to its end.
    async fn run(mut self, pipes: Vec<Pipes>, lanes: &Arc<Lanes>) -> Outcome {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let tasks = start_all(
            &self.ranks,
            pipes,
            self.first_rank,
            &self.live,
            lanes,
            &events,
        );
        let mut watched: Vec<Watched> = tasks.into_iter().map(Watched::new).collect();
        let mut output_error = None;
        let mut undelivered = lanes.count();
        let mut flush_until: Option<Instant> = None;
        // When the user gets the notice that ranks still run.
        let mut remind_at: Option<Instant> = None;

        loop {
            let all_reaped = watched.iter().all(|rank| rank.reaped);
            if (all_reaped && undelivered == 0) || self.escalation.given_up() {
                break;
            }
            if all_reaped {
                self.escalation.gone();
            }
            if all_reaped && let Some(patience) = self.escalation.patience() {
                let now = Instant::now();
                // The earlier of both, because a job that has failed may be stopped, too.
                let until = flush_until.map_or(now + patience, |until| until.min(now + patience));
                if until <= now {
                    break;
                }
                flush_until = Some(until);
            }
            let wake = self.wake(flush_until, &mut inbox).await;
            // Before any decision: a rank that has ended by now did so before the deadline or the signal.
            self.look(&mut watched);
            let now = Instant::now();
            if remind_at.is_some_and(|at| at <= now) {
                remind_at = None;
                self.remind(now, &watched);
            }
            let signal = match wake {
                Wake::Look => None,
                Wake::Clock => self.escalation.tick(now),
                Wake::Request(Request::Stop(signal)) => {
                    remind_at.get_or_insert(now + REMIND);
                    self.escalation.stop(signal, now)
                }
                Wake::Request(Request::Pass(signal)) => {
                    self.ranks.signal_groups(&self.ranks.alive(), signal);
                    None
                }
                Wake::Request(Request::Suspend) => {
                    let stood = suspend(&self.ranks);
                    self.escalation.shift(stood);
                    for time in [&mut flush_until, &mut remind_at] {
                        *time = time.map(|time| time + stood);
                    }
                    None
                }
                Wake::Event(Event::Reaped(rank)) => {
                    watched[rank].reaped = true;
                    None
                }
                Wake::Event(Event::Delivered) => {
                    undelivered -= 1;
                    None
                }
                Wake::Event(Event::Unreadable(error)) => {
                    output_error.get_or_insert(error);
                    None
                }
                Wake::Event(Event::Lost(error)) => {
                    output_error.get_or_insert(error);
                    self.escalation.output_lost(now)
                }
            };
            if let Some(signal) = signal {
                self.ranks.end_all(signal);
            }
        }
        self.ranks.clean_up();
        self.outcome(watched, output_error)
    }

    async fn wake(
        &mut self,
        flush_until: Option<Instant>,
        inbox: &mut mpsc::UnboundedReceiver<Event>,
    ) -> Wake {
        let look = Instant::now() + LOOK;
        let clock = self
            .escalation
            .next()
            .into_iter()
            .chain(flush_until)
            .fold(look, Ord::min);
        tokio::select! {
            _ = self.child_exits.recv() => Wake::Look,
            () = sleep_until(clock) => Wake::Clock,
            Some(request) = self.requests.recv() => Wake::Request(request),
            Some(event) = inbox.recv() => Wake::Event(event),
        }
    }

    /// Notes every rank that has ended since the last check.
    fn look(&mut self, watched: &mut [Watched]) {
        for (number, rank) in watched.iter_mut().enumerate() {
            if rank.exit.is_some() {
                continue;
            }
            let exit = match self.ranks.look(number) {
                Look::Ended(exit) => exit,
                Look::Stopped(signal) => {
                    self.mention(number, signal, &mut rank.mentioned);
                    continue;
                }
                Look::Runs => continue,
            };
            rank.exit = Some(exit);
            rank.elapsed = Some(self.started.elapsed());
            rank.ended_by = self.ranks.ended_by(number);
            if let Some(exited) = rank.tasks.exited.take() {
                let _ = exited.send(());
            }
            // A rank whose code is unknown may have succeeded, so the others are not ended.
            if exit.failed() && rank.ended_by.is_none() {
                self.escalation.failed(number, Instant::now());
            }
        }
        let reports = self.reports.take();
        let is_lost = |named: usize| {
            let place = named.checked_sub(self.first_rank);
            let rank = place.and_then(|place| watched.get(place));
            rank.is_some_and(|rank| rank.exit.is_none())
        };
        let lost = reports.iter().flatten().filter_map(Report::lost);
        self.escalation.last_words(lost.into_iter().any(is_lost));
        if self.reports.found_no_ring() {
            self.notices.tell(&Notice::NoRing);
        }
        if self.reaps_orphans {
            self.ranks.reap_orphans();
        }
    }

    /// Notifies the owner once that the terminal has stopped a rank: the rank may never be continued.
    fn mention(&mut self, rank: usize, signal: i32, mentioned: &mut bool) {
        let reads = signal == Raw::TTIN.as_raw();
        if (reads || signal == Raw::TTOU.as_raw()) && !std::mem::replace(mentioned, true) {
            let rank = self.first_rank + rank;
            self.notices
                .tell(&Notice::StoppedByTerminal { rank, reads });
        }
    }

    /// Notifies the owner that a stopped job still waits for ranks.
    fn remind(&mut self, now: Instant, watched: &[Watched]) {
        let left = watched.iter().filter(|rank| rank.exit.is_none()).count();
        if let Some((signal, until)) = self.escalation.stopping()
            && left > 0
        {
            let grace = until.saturating_duration_since(now);
            self.notices.tell(&Notice::Stopping {
                signal,
                left,
                grace,
            });
        }
    }

    fn outcome(&mut self, watched: Vec<Watched>, output_error: Option<io::Error>) -> Outcome {
        let elapsed = self.started.elapsed();
        let pids = self.ranks.pids();
        let ranks = watched.into_iter().zip(pids).zip(self.reports.take());
        let ranks = ranks.map(|((rank, pid), &report)| {
            let tail = rank.tasks.tail.lock();
            let mut tail = tail.unwrap_or_else(PoisonError::into_inner);
            let rank = RankOutcome {
                pid,
                report: None,
                exit: rank.exit,
                ended_by: rank.ended_by,
                elapsed: rank.elapsed.unwrap_or(elapsed),
                // First, because it looks at the last lines.
                panic_lines: tail.take_panics(),
                last_lines: tail.take(),
            };
            (rank, report)
        });
        let ranks = ranks.collect();
        Outcome {
            timed_out: self.escalation.timed_out(),
            stopped: self.escalation.stopped(),
            output_error,
            elapsed,
            ..judge(self.first_rank, self.escalation.ending(), ranks)
        }
    }
}

/// Listens for exits of children. Needs the runtime.
fn child_exits() -> io::Result<SignalStream> {
    signal(SignalKind::child())
}
