//! Rank 0 and its watch against a script: the test holds the other ends of all links.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use comm_api::{FailureKind, Operation};
use comm_kit::{Call, interrupt};

use super::*;
use crate::engine::{Links, uptime};
use crate::frame::{FrameKind, Header};
use crate::link::Link;
use crate::member::{Member, Outlook};
use crate::notice::{Cause, pack};
use crate::socket::Patience;
use crate::watch::{Hub, Watcher};

thread_local! {
    /// Makes the hook of this thread panic, once rank 0 has begun to answer.
    static ANSWERING: RefCell<Option<Arc<Signals>>> = const { RefCell::new(None) };
}

fn panic_among_answers() -> bool {
    ANSWERING.with_borrow(|signals| {
        assert!(signals.as_ref().is_none_or(|s| s.answered() == 0));
    });
    false
}

/// A pair of connected streams, the first of which does not block.
fn pair() -> (UnixStream, UnixStream) {
    let (mine, other) = UnixStream::pair().unwrap();
    mine.set_nonblocking(true).unwrap();
    (mine, other)
}

/// One rank, and its end of the watch.
struct Watching(Watcher, Member);

impl Watching {
    fn new(stream: UnixStream, rank: usize) -> Self {
        stream.set_nonblocking(true).unwrap();
        let member = Member::new((rank, WORKERS + 1), "here".to_owned(), None, uptime());
        Self(Watcher::new(Link::new(stream.into(), 0)), member)
    }

    /// Waits for the cause for which a worker that entered the first call cannot get its answer.
    fn cause_of_no_answer(&mut self) -> Option<Cause> {
        let Self(watcher, member) = self;
        let began = Instant::now();
        loop {
            watcher.look(member);
            let cause = member.verdict(0, Outlook::Entering);
            if cause.is_some() || began.elapsed() > Duration::from_secs(5) {
                return cause;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

const WORKERS: usize = 2;

/// More than a link takes that nobody reads.
const BYTES: usize = 800 << 10;

/// Rank 0, and the ends of its workers, which have entered an allreduce and read nothing.
struct World {
    gate: Gate<Peers>,
    signals: Arc<Signals>,
    hub: JoinHandle<()>,
    watchers: Vec<Watching>,
    data: Vec<JoinHandle<UnixStream>>,
}

impl World {
    fn new() -> Self {
        Self::of(FrameKind::Enter)
    }

    /// Creates a world in which rank 1 sends a frame of this kind instead of its entry.
    fn of(first: FrameKind) -> Self {
        comm_testing::watchdog();
        let signals = Arc::new(Signals::default());
        let (mut watchers, mut ends) = (Vec::new(), Vec::new());
        for rank in 0..=WORKERS {
            let (mine, other) = pair();
            ends.push((mine.into(), "here".to_owned()));
            watchers.push(Watching::new(other, rank));
        }
        let hub = Hub::new(ends, Arc::clone(&signals), Patience::of(None));
        let Watching(own, member) = watchers.remove(0);
        let kinds = std::iter::once(first).chain(std::iter::repeat(FrameKind::Enter));
        let workers = (1..=WORKERS).zip(kinds);
        let (links, data) = workers.map(|(rank, kind)| enter(rank, kind)).unzip();
        let peers = Peers {
            watch_link: own.voice().unwrap(),
            signals: Arc::clone(&signals),
        };
        let engine = Engine {
            rank: 0,
            size: WORKERS + 1,
            hosts: Hosts::One,
            links: Links {
                data: links,
                ring: None,
            },
            watcher: own,
            member,
            signals: Arc::clone(&signals),
            awake: Policy::new(WORKERS + 1, usable()),
            sequence: 0,
            outlook: Outlook::Entering,
            failed: None,
            scratch: Vec::new(),
        };
        Self {
            gate: Gate::new(0, peers, engine),
            signals,
            hub: hub.start().unwrap(),
            watchers,
            data,
        }
    }

    /// Runs the call of rank 0.
    fn allreduce(&self) -> Result<(), CommError> {
        let (send, mut recv) = (vec![1; BYTES], vec![0; BYTES]);
        run(&self.gate, Operation::Allreduce, |engine| {
            engine.allreduce(&send, &mut recv, ScalarKind::U8, ReduceOp::Sum)
        })
    }

    fn end(mut self) {
        let (_, engine) = self.gate.leave().unwrap();
        engine.leave();
        self.hub.join().unwrap();
    }
}

/// Lets a worker enter, or send another frame; returns the end of rank 0, and that of the worker once all is written.
fn enter(rank: usize, kind: FrameKind) -> (Link, JoinHandle<UnixStream>) {
    let (mine, mut worker) = pair();
    let enters = thread::spawn(move || {
        let call = Call::allreduce(BYTES, ScalarKind::U8, ReduceOp::Sum);
        let body = match kind {
            FrameKind::Enter => vec![1; BYTES],
            _ => pack(rank, "ranks differ"),
        };
        let header = Header::new(kind, 0, call, body.len());
        worker.write_all(&header.encode()).unwrap();
        worker.write_all(&body).unwrap();
        worker
    });
    (Link::new(mine.into(), rank), enters)
}

/// Rank 0 has seen all enter and panics while it sends the answers, to ranks that read slowly. It
/// does not drop its communicator, so nothing but the watch says that the answers do not come.
#[test]
fn answers_that_a_panic_cuts_short_are_not_waited_for() {
    interrupt::set_hook(panic_among_answers);
    let mut world = World::new();
    ANSWERING.set(Some(Arc::clone(&world.signals)));
    let call = || world.allreduce();
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "no panic");
    ANSWERING.set(None);
    for worker in &mut world.watchers {
        let cause = worker.cause_of_no_answer().expect("a worker hangs");
        assert_eq!((cause.kind, cause.rank), (FailureKind::PeerLost, Some(0)));
    }
    world.end();
}

/// Rank 2 dies after it has contributed. Rank 1 reads its answer too slowly for rank 0, which gives
/// up, and learns that from its link: rank 0 does not drop its communicator.
#[test]
fn answers_that_a_loss_cuts_short_are_not_waited_for() {
    let mut world = World::new();
    let dies = world.watchers.pop().unwrap();
    let signals = Arc::clone(&world.signals);
    let death = thread::spawn(move || {
        while signals.answered() == 0 {
            thread::yield_now();
        }
        drop(dies);
    });
    let Err(CommError::CollectiveFailed { kind, rank, .. }) = world.allreduce() else {
        panic!("the answers fit into a link that nobody reads");
    };
    assert_eq!((kind, rank), (FailureKind::PeerLost, Some(2)));
    death.join().unwrap();
    let mut worker = world.data.remove(0).join().unwrap();
    worker
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    let read = worker.read_to_end(&mut Vec::new());
    let read = read.expect("a worker hangs");
    assert!(read < BYTES, "{read} bytes are all of the answer");
    world.end();
}

/// Only rank 0 can find that ranks differ. A worker that says so has not entered, so nobody may succeed without it.
#[test]
fn a_worker_that_says_that_ranks_differ_ends_the_call_on_all_ranks() {
    let mut world = World::of(FrameKind::Mismatch);
    let Err(CommError::CollectiveFailed { kind, rank, .. }) = world.allreduce() else {
        panic!("a call succeeds that rank 1 has not entered");
    };
    assert_eq!((kind, rank), (FailureKind::Io, Some(1)));
    let cause = world.watchers[1]
        .cause_of_no_answer()
        .expect("rank 2 hangs");
    assert_eq!((cause.kind, cause.rank), (FailureKind::Io, Some(1)));
    world.end();
}
