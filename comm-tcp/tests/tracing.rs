//! What a job says through `tracing`: who came and left, who is waited for, what failed, which secret
//! is none.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

mod common;

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use comm_api::Communicator;
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

#[test]
fn ranks_that_come_and_leave_are_told_once_each() {
    let _turn = listen();
    common::world(2, |_| {}, |comm| comm.barrier().unwrap());
    for rank in ["rank=0", "rank=1"] {
        assert_heard(1, &["INFO", "joined", rank, "size=2"]);
        assert_heard(1, &["INFO", "left", rank]);
    }
    assert_heard(0, &["WARN"]);
    assert_heard(0, &["ERROR"]);
}

#[test]
fn a_slow_wait_names_who_is_missing() {
    let _turn = listen();
    common::world(
        3,
        |config| config.timeout = None,
        |comm| {
            // It comes when it is missed, and not before.
            let missed = comm.rank() != 2 || hears(&["WARN", "ranks are waiting", "rank 2"]);
            comm.barrier().unwrap();
            assert!(missed, "nobody missed rank 2: {:#?}", lines());
        },
    );
    let waiting = ["WARN", "ranks are waiting", "barrier", "seconds=1"];
    assert_heard(1, &waiting);
    assert_heard(0, &["ranks are waiting", "rank 1"]);
}

#[test]
fn a_failure_is_told_by_every_survivor_with_the_rank_to_blame() {
    let _turn = listen();
    common::world(
        3,
        |_| {},
        |comm| {
            if comm.rank() == 1 {
                return;
            }
            comm.barrier().unwrap_err();
            // The first cause again, and not told again.
            comm.barrier().unwrap_err();
        },
    );
    for rank in ["rank=0", "rank=2"] {
        assert_heard(1, &["ERROR", "collective failed", rank, "rank 1"]);
    }
    assert_heard(1, &["ERROR", "the job has failed", "rank=Some(1)"]);
}

#[test]
fn a_secret_file_that_others_may_read_is_warned_of() {
    use std::os::unix::fs::PermissionsExt;

    let _turn = listen();
    let path = std::env::temp_dir().join(format!("comm-tcp-secret-{}", std::process::id()));
    std::fs::write(&path, "a secret in a file").unwrap();
    for (mode, warnings) in [(0o600, 0), (0o640, 2), (0o604, 2)] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        lines().clear();
        let file = path.clone();
        common::world(
            2,
            |config| (config.secret, config.secret_file) = (None, Some(file.clone())),
            |comm| comm.barrier().unwrap(),
        );
        let (name, mode) = (path.display().to_string(), format!("{mode:03o}"));
        assert_heard(warnings, &["WARN", "chmod 600", &name, &mode]);
        assert_heard(0, &["a secret in a file"]);
    }
    std::fs::remove_file(&path).unwrap();
}
