//! The life of a job after its start: one loop that learns of every exit, signal and timer, and
//! decides.
//!
//! Architecture invariant: nothing in this loop blocks. Lines go to the sink on another thread, so
//! a terminal that stands still cannot delay a deadline or a Ctrl-C.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::escalation::Escalation;
use crate::outcome::{Exit, Outcome, RankOutcome};
use crate::ranks::Ranks;
use crate::signal::Signal;
use crate::sink::Sink;
use crate::tasks::{Event, Pipes, RankTasks, start_all};

/// How long a job that must end soon waits for a sink that stands still.
const FLUSH: Duration = Duration::from_secs(1);
/// Exits are announced by `SIGCHLD`, but a program that uses this library may have blocked it or
/// taken it for itself.
const LOOK: Duration = Duration::from_millis(200);

/// Why the loop goes round.
#[derive(Debug)]
enum Wake {
    Look,
    Clock,
    Stop(Signal),
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
}

impl Watched {
    fn new(tasks: RankTasks) -> Self {
        Self {
            tasks,
            exit: None,
            ended_by: None,
            elapsed: None,
            reaped: false,
        }
    }
}

pub(crate) struct Supervisor {
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) started: Instant,
    pub(crate) escalation: Escalation,
    /// Requests to end the job, from handles and from forwarded signals.
    pub(crate) stops: mpsc::UnboundedReceiver<Signal>,
    /// Made before the first rank starts, so that no exit goes unheard.
    pub(crate) child_exits: SignalStream,
    /// The number of the first of these ranks in the whole job.
    pub(crate) first_rank: usize,
    /// The ranks, counted on this machine, whose lines are passed on before they end.
    pub(crate) live: BTreeSet<usize>,
}

impl Supervisor {
    /// Follows the job to its end.
    pub(crate) async fn run(mut self, pipes: Vec<Pipes>, sink: Box<dyn Sink>) -> Outcome {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let tasks = start_all(
            &self.ranks,
            pipes,
            self.first_rank,
            &self.live,
            sink,
            &events,
        );
        let mut watched: Vec<Watched> = tasks.into_iter().map(Watched::new).collect();
        let mut output_error = None;
        let mut delivered = false;
        let mut flush_until = None;
        let mut first_failure = None;

        loop {
            let all_reaped = watched.iter().all(|rank| rank.reaped);
            if (all_reaped && delivered) || self.escalation.given_up() {
                break;
            }
            if all_reaped {
                self.escalation.gone();
            }
            if all_reaped && self.escalation.hurried() {
                let until = *flush_until.get_or_insert_with(|| Instant::now() + FLUSH);
                if until <= Instant::now() {
                    break;
                }
            }
            let wake = self.wake(flush_until, &mut inbox).await;
            // Before anything is decided: who has ended by now did so before the clock struck or
            // the signal went out.
            self.look(&mut watched, &mut first_failure);
            let now = Instant::now();
            let signal = match wake {
                Wake::Look => None,
                Wake::Clock => self.escalation.tick(now),
                Wake::Stop(signal) => self.escalation.stop(signal, now),
                Wake::Event(Event::Reaped(rank)) => {
                    watched[rank].reaped = true;
                    None
                }
                Wake::Event(Event::Delivered) => {
                    delivered = true;
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
        self.outcome(watched, first_failure, output_error)
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
            Some(signal) = self.stops.recv() => Wake::Stop(signal),
            Some(event) = inbox.recv() => Wake::Event(event),
        }
    }

    /// Notes every rank that has ended since the last look.
    fn look(&mut self, watched: &mut [Watched], first_failure: &mut Option<usize>) {
        let mut failed = Vec::new();
        for (number, rank) in watched.iter_mut().enumerate() {
            if rank.exit.is_some() {
                continue;
            }
            let Some(exit) = self.ranks.exit(number) else {
                continue;
            };
            rank.exit = Some(exit);
            rank.elapsed = Some(self.started.elapsed());
            rank.ended_by = self.ranks.ended_by(number);
            if let Some(exited) = rank.tasks.exited.take() {
                let _ = exited.send(());
            }
            if !exit.success() && rank.ended_by.is_none() {
                failed.push((number, exit));
            }
        }
        // Seen in one look, a rank that a signal killed comes before one that exited: those that
        // exit report the loss.
        failed.sort_by_key(|&(number, exit)| (matches!(exit, Exit::Code(_)), number));
        for (number, _) in failed {
            first_failure.get_or_insert(number);
            self.escalation.failed(number, Instant::now());
        }
    }

    fn outcome(
        &self,
        watched: Vec<Watched>,
        first_failure: Option<usize>,
        output_error: Option<io::Error>,
    ) -> Outcome {
        let elapsed = self.started.elapsed();
        let ranks = watched
            .into_iter()
            .zip(self.ranks.pids())
            .map(|(rank, pid)| RankOutcome {
                pid,
                exit: rank.exit,
                ended_by: rank.ended_by,
                elapsed: rank.elapsed.unwrap_or(elapsed),
                last_lines: rank
                    .tasks
                    .tail
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            });
        Outcome {
            ending: self.escalation.ending(),
            first_rank: self.first_rank,
            ranks: ranks.collect(),
            first_failure,
            timed_out: self.escalation.timed_out(),
            output_error,
            elapsed,
        }
    }
}

/// Listens for exits of children. Needs the runtime.
pub(crate) fn child_exits() -> io::Result<SignalStream> {
    signal(SignalKind::child())
}
