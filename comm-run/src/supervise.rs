//! The life of a job after its start: one thread that hears of every exit, signal, timer and line, and decides.
//!
//! Architecture invariant: nothing in this loop blocks. Lines go to the sink on another thread, so a terminal that stands
//! still cannot keep a deadline or a Ctrl-C waiting.

use std::io;
use std::process::{ChildStderr, ChildStdout};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::signal::unix::{Signal as SignalStream, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::escalation::Escalation;
use crate::outcome::{Exit, Outcome, RankOutcome};
use crate::output::{LINE_LIMIT, Outlet, Pump};
use crate::ranks::Ranks;
use crate::signal::Signal;
use crate::sink::{Sink, Stream, feed};
use crate::tail::Tail;

/// What a rank left in its group may still finish writing after the rank itself ended (a `tee` at the end of its pipe, say).
const LEFTOVERS: Duration = Duration::from_millis(500);
/// How long a job that is wanted gone waits for a sink that stands still.
const FLUSH: Duration = Duration::from_secs(1);
/// Exits are announced by `SIGCHLD`, but a program that uses this library may have blocked it or taken it for itself.
const LOOK: Duration = Duration::from_millis(200);

/// The two pipes of a rank that just started.
pub(crate) type Pipes = (ChildStdout, ChildStderr);

#[derive(Debug)]
enum Event {
    /// The rank is reaped.
    Reaped(usize),
    /// A stream could not be read to its end.
    Unreadable(io::Error),
    /// The sink takes no more lines.
    Lost(io::Error),
    /// The sink has every line.
    Delivered,
}

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
    exit: Option<Exit>,
    ended_by: Option<Signal>,
    elapsed: Option<Duration>,
    reaped: bool,
    /// Tells the rank's [`attend`] that it has exited.
    exited: Option<oneshot::Sender<()>>,
    tail: Arc<Mutex<Tail>>,
}

pub(crate) struct Supervisor {
    pub(crate) ranks: Arc<Ranks>,
    pub(crate) started: Instant,
    pub(crate) escalation: Escalation,
    /// Requests to end the job, from handles and from forwarded signals.
    pub(crate) stops: mpsc::UnboundedReceiver<Signal>,
    /// Made before the first rank starts, so that no exit goes unheard.
    pub(crate) child_exits: SignalStream,
}

impl Supervisor {
    /// Follows the job to its end.
    pub(crate) async fn run(mut self, pipes: Vec<Pipes>, sink: Box<dyn Sink>) -> Outcome {
        let (events, mut inbox) = mpsc::unbounded_channel();
        let mut watched = self.attend_all(pipes, sink, &events);
        let mut output_error = None;
        let mut delivered = false;
        let mut flush_until = None;
        let mut first_failure = None;

        loop {
            let all_reaped = watched.iter().all(|rank| rank.reaped);
            if (all_reaped && delivered) || self.escalation.given_up() {
                break;
            }
            if all_reaped && self.escalation.hurried() {
                let until = *flush_until.get_or_insert_with(|| Instant::now() + FLUSH);
                if until <= Instant::now() {
                    break;
                }
            }
            let wake = self.wake(flush_until, &mut inbox).await;
            // Before anything is decided: who has ended by now did so before the clock struck or the signal went out.
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
        self.ranks.dismiss_warden();
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

    fn attend_all(
        &self,
        pipes: Vec<Pipes>,
        mut sink: Box<dyn Sink>,
        events: &mpsc::UnboundedSender<Event>,
    ) -> Vec<Watched> {
        let (outlet, batches) = Outlet::new();
        let done = TellAtDrop(events.clone());
        let lost = events.clone();
        let feeder = std::thread::Builder::new()
            .name("comm-run-output".into())
            .spawn(move || {
                let _done = done;
                feed(batches, sink.as_mut(), |error| {
                    let _ = lost.send(Event::Lost(error));
                });
            });
        if let Err(error) = feeder {
            let _ = events.send(Event::Lost(error));
        }
        let watch = |(rank, (stdout, stderr)): (usize, Pipes)| {
            let tail = Arc::new(Mutex::new(Tail::default()));
            let (exited, exit) = oneshot::channel();
            let (leaving, left) = watch::channel(false);
            let pump = |stream| Pump {
                rank,
                stream,
                outlet: outlet.clone(),
                tail: Arc::clone(&tail),
                leaving: left.clone(),
                limit: LINE_LIMIT,
            };
            let pumps = [
                start(pump(Stream::Stdout), receiver(stdout.into()), events),
                start(pump(Stream::Stderr), receiver(stderr.into()), events),
            ];
            tokio::spawn(attend(
                rank,
                Arc::clone(&self.ranks),
                exit,
                pumps,
                leaving,
                events.clone(),
            ));
            Watched {
                exit: None,
                ended_by: None,
                elapsed: None,
                reaped: false,
                exited: Some(exited),
                tail,
            }
        };
        pipes.into_iter().enumerate().map(watch).collect()
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
            if let Some(exited) = rank.exited.take() {
                let _ = exited.send(());
            }
            if !exit.success() && rank.ended_by.is_none() {
                failed.push((number, exit));
            }
        }
        // Seen in one look, a rank that a signal killed comes before one that exited: those that exit report the loss.
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
                    .tail
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            });
        Outcome {
            ending: self.escalation.ending(),
            ranks: ranks.collect(),
            first_failure,
            timed_out: self.escalation.timed_out(),
            output_error,
            elapsed,
        }
    }
}

/// Sees one rank off: lets what it left finish its lines, kills the rest, reaps it, reads what is still in the pipes.
async fn attend(
    rank: usize,
    ranks: Arc<Ranks>,
    exit: oneshot::Receiver<()>,
    [mut stdout, mut stderr]: [JoinHandle<()>; 2],
    leaving: watch::Sender<bool>,
    events: mpsc::UnboundedSender<Event>,
) {
    if exit.await.is_err() {
        // The job was given up.
        return;
    }
    let streams = async {
        let _ = (&mut stdout).await;
        let _ = (&mut stderr).await;
    };
    let _ = timeout(LEFTOVERS, streams).await;
    ranks.reap(rank);
    let _ = events.send(Event::Reaped(rank));
    // Kept until the pumps have heard of it: a dropped sender would say the same, but by accident.
    let _ = leaving.send(true);
}

fn receiver(pipe: std::os::fd::OwnedFd) -> io::Result<tokio::net::unix::pipe::Receiver> {
    tokio::net::unix::pipe::Receiver::from_owned_fd(pipe)
}

fn start(
    pump: Pump,
    reader: io::Result<impl AsyncRead + Unpin + Send + 'static>,
    events: &mpsc::UnboundedSender<Event>,
) -> JoinHandle<()> {
    let events = events.clone();
    tokio::spawn(async move {
        let result = match reader {
            Ok(reader) => pump.run(reader).await,
            Err(error) => Err(error),
        };
        if let Err(error) = result {
            let _ = events.send(Event::Unreadable(error));
        }
    })
}

/// Also when the sink panics: the job must end then, and not wait for it for ever.
struct TellAtDrop(mpsc::UnboundedSender<Event>);

impl Drop for TellAtDrop {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = self
                .0
                .send(Event::Lost(io::Error::other("the sink panicked")));
        }
        let _ = self.0.send(Event::Delivered);
    }
}

/// Listens for exits of children. Needs the runtime.
pub(crate) fn child_exits() -> io::Result<SignalStream> {
    signal(SignalKind::child())
}
