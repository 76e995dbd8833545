//! Collects what a backend logs through `tracing`, for its tests.
//!
//! A process has one subscriber, so tests that use it take turns.

use std::fmt::{self, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// One test at a time, since they share the lines.
static TURN: Mutex<()> = Mutex::new(());

struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

/// Passes every event to a function; ignores spans.
#[derive(Debug)]
pub struct Each<F>(pub F);

impl<F: Fn(&Event<'_>) + 'static> Subscriber for Each<F>
where
    Self: Send + Sync,
{
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        (self.0)(event);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Keeps an event of this process as a line: level, message, fields.
fn keep(event: &Event<'_>) {
    let mut line = EventText(event.metadata().level().to_string());
    event.record(&mut line);
    lines().push(line.0);
}

/// Returns the collected lines: level, message and fields of every event.
pub fn lines() -> MutexGuard<'static, Vec<String>> {
    LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts collecting, with no lines so far, until the returned turn is dropped.
pub fn listen() -> MutexGuard<'static, ()> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = tracing::subscriber::set_global_default(Each(keep));
    lines().clear();
    turn
}

/// Returns how many lines hold all of `words`.
fn heard(words: &[&str]) -> usize {
    let all = |line: &&String| words.iter().all(|word| line.contains(word));
    lines().iter().filter(all).count()
}

/// Checks how many lines hold all of `words`.
///
/// # Panics
///
/// If the number is not `times`.
#[track_caller]
pub fn assert_heard(times: usize, words: &[&str]) {
    assert_eq!(heard(words), times, "{words:?} in {:#?}", lines());
}

/// Waits until a line contains all of `words`, for at most half a minute.
#[must_use]
pub fn hears(words: &[&str]) -> bool {
    let deadline = Instant::now() + Duration::from_secs(30);
    while heard(words) == 0 {
        if Instant::now() > deadline {
            return false;
        }
        thread::park_timeout(Duration::from_millis(20));
    }
    true
}
