//! The tasks beside the supervisor's loop: for each rank two that read its output and one that reaps it. They report to
//! the loop and make no decisions.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::output::Stream;
use crate::output::delivery::{Lanes, Outlet};
use crate::output::pump::Quota;
use crate::output::pump::{LINE_LIMIT, Pump};
use crate::start::Pipes;
use crate::supervise::ranks::Ranks;
use crate::verdict::tail::Tail;

/// How long a line of a live rank may stay unfinished before its beginning is passed on. Longer than the pause between two reads
/// of consecutive lines, which would be split otherwise, and too short for a person to notice.
const LIVE: Duration = Duration::from_millis(20);
/// How long processes that a rank left in its group may keep writing after the rank ended, for example a `tee` at
/// the end of a pipe.
const LEFTOVERS: Duration = Duration::from_millis(500);
/// How long the job waits for killed leftovers to disappear, so that they are gone when the job ends.
/// Bounded, because they are not its children: in a container whose first process does not
/// reap, they remain zombies.
const LINGER: Duration = Duration::from_millis(100);

/// What a task reports to the loop.
#[derive(Debug)]
pub(crate) enum Event {
    /// The rank is reaped.
    Reaped(usize),
    /// A stream could not be read to its end.
    Unreadable(io::Error),
    /// A sink takes no more lines.
    Lost(io::Error),
    /// One of the sinks has every line, or had failed before.
    Delivered,
}

/// The loop's access to the tasks of one rank.
#[derive(Debug)]
pub(super) struct RankTasks {
    /// Used once, when the rank has exited: tells its task to reap it.
    pub(super) exited: Option<oneshot::Sender<()>>,
    pub(crate) tail: Arc<Mutex<Tail>>,
}

/// Starts to read the ranks' output and to deliver it, numbered from `first_rank`. Unfinished lines of the `live` ranks,
/// counted from 0, are delivered early. Needs the runtime.
pub(super) fn start_all(
    ranks: &Arc<Ranks>,
    pipes: Vec<Pipes>,
    first_rank: usize,
    live: &BTreeSet<usize>,
    lanes: &Arc<Lanes>,
    events: &mpsc::UnboundedSender<Event>,
) -> Vec<RankTasks> {
    let outlet = Outlet::begin(lanes, events);
    let mut quota = Quota::for_streams(2 * pipes.len());
    let start = |(rank, (stdout, stderr)): (usize, Pipes)| {
        let tail = Arc::new(Mutex::new(Tail::default()));
        let (exited, exit) = oneshot::channel();
        let (leaving, left) = watch::channel(false);
        let mut pump = |stream| Pump {
            rank: first_rank + rank,
            stream,
            outlet: outlet.clone(),
            tail: Arc::clone(&tail),
            leaving: left.clone(),
            limit: LINE_LIMIT,
            quota: quota(),
            patience: Some(LIVE)
                .filter(|_| live.contains(&rank))
                .or(lanes.patience(stream)),
            open: false,
        };
        let pumps = [
            start_pump(pump(Stream::Stdout), receiver(stdout), events),
            start_pump(pump(Stream::Stderr), receiver(stderr), events),
        ];
        tokio::spawn(reap(
            rank,
            Arc::clone(ranks),
            exit,
            pumps,
            leaving,
            events.clone(),
        ));
        RankTasks {
            exited: Some(exited),
            tail,
        }
    };
    pipes.into_iter().enumerate().map(start).collect()
}

/// Waits for the end of one rank, lets the processes that it left behind finish their lines, kills them, reaps the rank, and
/// has the rest of the pipes read.
async fn reap(
    rank: usize,
    ranks: Arc<Ranks>,
    exit: oneshot::Receiver<()>,
    [mut stdout, mut stderr]: [JoinHandle<()>; 2],
    leaving: watch::Sender<bool>,
    events: mpsc::UnboundedSender<Event>,
) {
    if exit.await.is_err() {
        // The job was abandoned.
        return;
    }
    let streams = async {
        let _ = (&mut stdout).await;
        let _ = (&mut stderr).await;
    };
    let _ = timeout(LEFTOVERS, streams).await;
    ranks.reap(rank);
    let since = Instant::now();
    while ranks.lingers(rank) && since.elapsed() < LINGER {
        sleep(Duration::from_millis(1)).await;
    }
    let _ = events.send(Event::Reaped(rank));
    // Sent explicitly: dropping the sender would end the pumps too, but only by accident.
    let _ = leaving.send(true);
}

fn receiver(pipe: OwnedFd) -> io::Result<tokio::net::unix::pipe::Receiver> {
    tokio::net::unix::pipe::Receiver::from_owned_fd(pipe)
}

fn start_pump(
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
