//! A thread that writes on behalf of others, and its queue.
//!
//! Any file that a user can name may block: a pipe without a reader, a stopped terminal, a disk. So the thread that watches
//! the ranks writes to none of them. The output of the ranks, their logs, the events and the lines of `comm-run` itself each have
//! a lane. The lanes differ only in what happens when the queue is full: ranks wait for room, see `delivery`; a [`Text`] drops
//! and counts the line.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How many bytes may wait for a writer. A single longer piece may wait alone.
pub(super) const ROOM: usize = 8 << 20;

/// The sending end of a queue with one thread that takes the items. Dropping it discards the items that still wait.
#[derive(Debug)]
pub(super) struct Lane<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    state: Mutex<State<T>>,
    /// Signals that an item was pushed or the lane was closed.
    more: Condvar,
    /// Signals that no item waits any more.
    idle: Condvar,
}

#[derive(Debug)]
struct State<T> {
    queue: VecDeque<T>,
    /// Whether the thread is busy with an item.
    busy: bool,
    closed: bool,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next item and returns it with whether it is the last in the queue; `None` when the lane is closed.
    fn next(&self) -> Option<(T, bool)> {
        let mut state = self.state();
        state.busy = false;
        if state.queue.is_empty() {
            self.idle.notify_all();
        }
        let waits = |state: &mut State<T>| !state.closed && state.queue.is_empty();
        let waited = self.more.wait_while(state, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        let item = state.queue.pop_front()?;
        state.busy = true;
        Some((item, state.queue.is_empty()))
    }
}

impl<T: Send + 'static> Lane<T> {
    /// Starts the thread, which passes each item to `take`, with whether it is the last in the queue. `take` must not panic.
    ///
    /// # Errors
    ///
    /// Fails when the thread cannot be started.
    pub(super) fn start(
        name: &str,
        mut take: impl FnMut(T, bool) + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                busy: false,
                closed: false,
            }),
            more: Condvar::new(),
            idle: Condvar::new(),
        });
        let taker = Arc::clone(&shared);
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || {
                while let Some((item, is_last)) = taker.next() {
                    take(item, is_last);
                }
            })?;
        Ok(Self(shared))
    }

    /// Appends an item if `fits` accepts it beside those that wait; returns whether it did. Never waits.
    pub(super) fn push_if(&self, item: T, fits: impl FnOnce(&VecDeque<T>) -> bool) -> bool {
        let mut state = self.0.state();
        let fits = fits(&state.queue);
        if fits {
            state.queue.push_back(item);
            self.0.more.notify_one();
        }
        fits
    }

    /// Waits until every item is taken and done with, at most this long.
    pub(super) fn settle(&self, patience: Duration) {
        let waits = |state: &mut State<T>| state.busy || !state.queue.is_empty();
        let state = self.0.state();
        let _ = self.0.idle.wait_timeout_while(state, patience, waits);
    }

    /// Returns the sum of `size` over all items that wait, and whether the thread is busy with another one.
    pub(super) fn left(&self, size: impl Fn(&T) -> usize) -> (usize, bool) {
        let state = self.0.state();
        (state.queue.iter().map(size).sum(), state.busy)
    }
}

impl<T> Drop for Lane<T> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.closed = true;
        let rest = std::mem::take(&mut state.queue);
        self.0.more.notify_one();
        drop(state);
        // Outside the lock: dropping an item may run any code.
        drop(rest);
    }
}

/// Calls code of the user; turns a panic in it into an error.
pub(super) fn foreign(call: impl FnOnce() -> io::Result<()>) -> io::Result<()> {
    let result = catch_unwind(AssertUnwindSafe(call));
    result.unwrap_or_else(|_| Err(io::Error::other("the sink panicked")))
}

/// Writes lines for a reader that may be blocked: no caller waits for a write, and lines that cannot be written are counted.
#[doc(hidden)]
#[derive(Debug)]
pub struct Text {
    lane: io::Result<Lane<Vec<u8>>>,
    lost: Arc<Mutex<Lost>>,
}

/// Lines that were not written.
#[doc(hidden)]
#[derive(Debug, Default)]
pub struct Lost {
    /// How many.
    pub lines: usize,
    /// Why the first was not written; `None` if no reader took it in time.
    pub error: Option<io::Error>,
}

impl Text {
    /// Starts the thread that calls `write` with each line. After an error it is not called again.
    pub fn new(
        name: &str,
        mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
    ) -> Self {
        let lost = Arc::new(Mutex::new(Lost::default()));
        let failed = Arc::clone(&lost);
        let lane = Lane::start(name, move |line: Vec<u8>, _| {
            let is_lost = lock(&failed).error.is_some();
            let written = if is_lost {
                Ok(())
            } else {
                foreign(|| write(&line))
            };
            if is_lost || written.is_err() {
                let mut failed = lock(&failed);
                failed.lines += 1;
                failed.error = failed.error.take().or(written.err());
            }
        });
        Self { lane, lost }
    }

    /// Takes a line. Never waits: a line that does not fit beside those that wait is dropped and counted.
    pub fn write(&self, line: Vec<u8>) {
        let size = line.len();
        let fits = |waiting: &VecDeque<Vec<u8>>| {
            let bytes: usize = waiting.iter().map(Vec::len).sum();
            waiting.is_empty() || bytes + size <= ROOM
        };
        let taken = (self.lane.as_ref()).is_ok_and(|lane| lane.push_if(line, fits));
        if !taken {
            lock(&self.lost).lines += 1;
        }
    }

    /// Waits until all lines taken so far are written, at most this long.
    pub fn settle(&self, patience: Duration) {
        if let Ok(lane) = &self.lane {
            lane.settle(patience);
        }
    }

    /// As [`settle`](Self::settle), but lines that are still not written are lost. Returns the lost lines.
    #[must_use]
    pub fn finish(self, patience: Duration) -> Lost {
        self.settle(patience);
        let mut lost = std::mem::take(&mut *lock(&self.lost));
        match self.lane {
            Ok(lane) => {
                let (waiting, busy) = lane.left(|_| 1);
                lost.lines += waiting + usize::from(busy);
            }
            Err(error) => lost.error = Some(error),
        }
        lost
    }
}

fn lock(lost: &Mutex<Lost>) -> MutexGuard<'_, Lost> {
    lost.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
