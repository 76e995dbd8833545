//! Rank 0 and its watch against a script: the test holds the other ends of all links.

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::Instant;

use comm_api::FailureKind;
use comm_kit::{Call, interrupt};

use super::*;
use crate::engine::Links;
use crate::frame::{Header, Kind};
use crate::link::Link;
use crate::notice::Cause;
use crate::watch::{Hub, Outlook, Watcher};

thread_local! {
    /// Makes the hook of this thread panic, once rank 0 has begun to answer.
    static ANSWERING: RefCell<Option<Arc<Signals>>> = const { RefCell::new(None) };
}

fn panic_among_answers() -> bool {
    ANSWERING.with_borrow(|signals| {
        let answered = |signals: &Arc<Signals>| signals.answered.load(Ordering::Acquire);
        assert!(signals.as_ref().is_none_or(|s| answered(s) == 0));
    });
    false
}

/// A pair of connected streams, the first of which does not block.
fn pair() -> (UnixStream, UnixStream) {
    let (mine, other) = UnixStream::pair().unwrap();
    mine.set_nonblocking(true).unwrap();
    (mine, other)
}

fn watcher(stream: UnixStream, rank: usize) -> Watcher {
    stream.set_nonblocking(true).unwrap();
    Watcher::new(Link::new(stream.into(), 0), rank, "here".to_owned())
}

/// Waits for the cause for which a worker that entered the first call cannot get its answer.
fn cause_of_no_answer(worker: &mut Watcher) -> Option<Cause> {
    let began = Instant::now();
    loop {
        worker.look();
        let cause = worker.verdict(0, Outlook::Entering);
        if cause.is_some() || began.elapsed() > Duration::from_secs(5) {
            return cause;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Rank 0 has seen all enter and panics while it sends the answers, to ranks that read slowly. It
/// does not drop its communicator, so nothing but the watch says that the answers do not come.
#[test]
fn answers_that_a_panic_cuts_short_are_not_waited_for() {
    const WORKERS: usize = 2;
    const BYTES: usize = 800 << 10;
    interrupt::set_hook(panic_among_answers);
    let signals = Arc::new(Signals::default());
    let (watch, ends): (Vec<_>, Vec<_>) = (0..=WORKERS).map(|_| pair()).unzip();
    let ends = ends.into_iter().map(|end| {
        end.set_nonblocking(true).unwrap();
        (OwnedFd::from(end), "here".to_owned())
    });
    let hub = Hub::new(ends.collect(), None, Arc::clone(&signals));
    let hub = hub.start().unwrap();
    let mut watch = watch.into_iter();
    let own = watch.next().unwrap();
    let mut workers: Vec<Watcher> = watch
        .zip(1..)
        .map(|(end, rank)| watcher(end, rank))
        .collect();

    let (scalar, op) = (ScalarKind::U8, ReduceOp::Sum);
    let call = Call::allreduce(BYTES, scalar, op);
    let (data, entering): (Vec<_>, Vec<_>) = (1..=WORKERS)
        .map(|rank| {
            let (mine, mut worker) = pair();
            let enters = thread::spawn(move || {
                let header = Header::new(Kind::Enter, 0, call, BYTES);
                worker.write_all(&header.encode()).unwrap();
                worker.write_all(&vec![1; BYTES]).unwrap();
                worker
            });
            (Link::new(mine.into(), rank), enters)
        })
        .unzip();
    let peers = Peers {
        watch_link: own.try_clone().unwrap().into(),
        signals: Arc::clone(&signals),
    };
    let engine = Engine {
        rank: 0,
        size: WORKERS + 1,
        near: true,
        links: Links { data, ring: None },
        watcher: watcher(own, 0),
        signals: Arc::clone(&signals),
        patience: Patience::new(WORKERS + 1),
        timeout: None,
        sequence: 0,
        failed: None,
        scratch: Vec::new(),
    };
    let mut gate = Gate::new(0, peers, engine);
    ANSWERING.set(Some(signals));
    let (send, mut recv) = (vec![1; BYTES], vec![0; BYTES]);
    let call = || {
        run(&gate, "allreduce", |e| {
            e.allreduce(&send, &mut recv, scalar, op)
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "no panic");
    ANSWERING.set(None);

    for worker in &mut workers {
        let cause = cause_of_no_answer(worker).expect("a worker waits for ever");
        assert_eq!((cause.kind, cause.rank), (FailureKind::PeerLost, Some(0)));
    }
    let streams: Vec<_> = entering.into_iter().map(thread::JoinHandle::join).collect();
    let (_, engine) = gate.leave().unwrap();
    engine.leave();
    hub.join().unwrap();
    drop(streams);
}
