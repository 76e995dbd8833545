//! What a job says through `tracing`: who came and left, who is waited for, what failed.

mod common;

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use comm_api::Communicator;
use comm_shm::{ShmBackend, ShmConfig};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Keeps every event of this process as a line: level, message, fields.
struct Events;

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// One test at a time, since they share the lines.
static TURN: Mutex<()> = Mutex::new(());

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Events {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        lines().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to listen, with nothing heard so far.
fn listen() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = tracing::subscriber::set_global_default(Events);
    lines().clear();
    turn
}

/// Gives how many lines hold all of `words`.
fn heard(words: &[&str]) -> usize {
    let all = |line: &&String| words.iter().all(|word| line.contains(word));
    lines().iter().filter(all).count()
}

#[track_caller]
fn assert_heard(times: usize, words: &[&str]) {
    assert_eq!(heard(words), times, "{words:?} in {:#?}", lines());
}

/// Waits until a line holds all of `words`; gives up after half a minute.
fn hears(words: &[&str]) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while heard(words) == 0 {
        if Instant::now() > deadline {
            return false;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    true
}

/// Runs `rank_main` on every rank of a world, each a thread.
fn world(size: usize, timeout: Option<Duration>, rank_main: fn(ShmBackend)) {
    let name = common::fresh_name();
    thread::scope(|scope| {
        for rank in 0..size {
            let mut config = ShmConfig::new(name.clone(), rank, size);
            config.timeout = timeout;
            scope.spawn(move || rank_main(ShmBackend::attach(config).expect("all ranks come")));
        }
    });
}

/// The longest wait that is no failure here.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(40));

#[test]
fn ranks_that_come_and_leave_are_told_once_each() {
    let _turn = listen();
    world(2, PATIENCE, |comm| comm.barrier().unwrap());
    for rank in ["rank=0", "rank=1"] {
        assert_heard(1, &["INFO", "attached", rank, "size=2"]);
        assert_heard(1, &["INFO", "detached", rank]);
    }
    assert_heard(0, &["WARN"]);
    assert_heard(0, &["ERROR"]);
}

#[test]
fn a_slow_wait_names_who_is_missing() {
    let _turn = listen();
    world(3, PATIENCE, |comm| {
        // It comes when both others miss it, and not before.
        let missed = |by| hears(&["WARN", "still waiting", "missing=rank 2", by]);
        let missed = comm.rank() != 2 || missed(" rank=0") && missed(" rank=1");
        comm.barrier().unwrap();
        assert!(missed, "nobody missed rank 2: {:#?}", lines());
    });
    assert_heard(2, &["WARN", "still waiting", "barrier", "seconds=10"]);
}

#[test]
fn a_failure_is_told_by_every_survivor_with_the_rank_to_blame() {
    let _turn = listen();
    world(3, PATIENCE, |comm| {
        if comm.rank() == 1 {
            return;
        }
        comm.barrier().unwrap_err();
        // The first cause again, and not told again.
        comm.barrier().unwrap_err();
    });
    for rank in [" rank=0", " rank=2"] {
        assert_heard(1, &["ERROR", "collective failed", rank, "rank 1"]);
    }
}
