//! How a rank sleeps on its bell, after it has spun and yielded long enough.
//!
//! No wake-up is lost: see [`publisher_fence`] and [`publish`](crate::protocol::sync::publish).

use std::time::Duration;

use comm_kit::clock;
use comm_kit::wait::{Backoff, Every, Policy};
use comm_kit::words::SLOW;

use crate::protocol::board::Board;
use crate::protocol::sync::{Ordering, POLLING, publisher_fence, second_look, sleeper_fence};

/// How often a waiting rank checks whether the others live.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// The longest sleep of a rank that is not woken.
const LONGEST_NAP: Duration = Duration::from_millis(2);

/// The shortest sleep.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// How long a rank waits in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// How to spin and yield before the first sleep.
    pub(crate) awake: Policy,
    /// How often to check whether the others live; models, in which no time passes, check every time.
    pub(crate) look: Duration,
    pub(crate) timeout: Option<Duration>,
}

impl WaitPolicy {
    /// Chooses by the processors that `size` ranks may use together: affinity and control groups count.
    pub(crate) fn new(size: usize, processors: usize, timeout: Option<Duration>) -> Self {
        Self {
            awake: Policy::new(size, processors),
            look: LOOK,
            timeout,
        }
    }
}

/// What is due between the sleeps of one wait.
#[derive(Debug)]
pub(crate) struct Vigil {
    pub(crate) look: Every,
    pub(crate) report: Every,
    timeout: Option<Duration>,
}

impl Vigil {
    pub(crate) fn new(policy: WaitPolicy) -> Self {
        Self {
            look: Every::new(policy.look),
            report: Every::new(SLOW),
            timeout: policy.timeout,
        }
    }

    /// Returns how long to sleep now.
    pub(crate) fn sleep_time(&self, backoff: &Backoff) -> Duration {
        let waited = backoff.waited();
        let time = if POLLING {
            // This sleeper is not woken: the sleep is short at first, for ranks that have nearly arrived.
            backoff.nap(LONGEST_NAP)
        } else {
            self.look.left(waited)
        };
        let time = clock::sleep_limit(Some(time.max(SHORTEST_SLEEP)));
        self.timeout.map_or(time, |timeout| {
            let left = timeout.saturating_sub(waited);
            time.min(left.max(SHORTEST_SLEEP))
        })
    }

    /// Checks whether the timeout has passed.
    pub(crate) fn is_over(&self, backoff: &Backoff) -> bool {
        backoff.expired(self.timeout)
    }
}

/// Puts `rank` to sleep until rank `awaited` publishes, an event happens, or `time` is over.
///
/// `stay` checks, after the bell was written, whether there is still reason to sleep.
pub(crate) fn sleep(
    board: &Board,
    rank: usize,
    awaited: usize,
    time: Duration,
    stay: impl FnOnce() -> bool,
) {
    let bell = &board.bell(rank).word;
    let sleepers = &board.control().sleepers;
    let value = bell_value(awaited);
    bell.store(value, Ordering::Relaxed);
    sleepers.fetch_add(1, Ordering::Relaxed);
    sleeper_fence(Ordering::SeqCst);
    if second_look(stay) {
        bell.sleep(value, time);
    }
    bell.store(0, Ordering::Relaxed);
    sleepers.fetch_sub(1, Ordering::Relaxed);
}

/// Wakes the ranks that sleep until `rank` publishes; called immediately after
/// [`publish`](crate::protocol::sync::publish).
#[inline]
pub(crate) fn ring(board: &Board, rank: usize) {
    // Sequentially consistent, as the publication before it.
    if board.control().sleepers.load(Ordering::SeqCst) != 0 {
        wake(board, rank, Some(bell_value(rank)));
    }
}

/// Wakes every sleeping rank: a refusal, a departure or a cause concerns all of them.
#[cold]
pub(crate) fn ring_all(board: &Board, rank: usize) {
    wake(board, rank, None);
}

/// Wakes the other ranks whose bell shows `value`, or any value.
#[cold]
fn wake(board: &Board, rank: usize, value: Option<u32>) {
    publisher_fence(Ordering::SeqCst);
    for other in (0..board.size()).filter(|&other| other != rank) {
        let bell = &board.bell(other).word;
        let found = bell.load(Ordering::Relaxed);
        let meant = found != 0 && value.is_none_or(|value| value == found);
        // Clears the bell only if it is unchanged: the sleeper may wait for another rank by now.
        let cleared = meant
            && bell
                .compare_exchange(found, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if cleared {
            bell.wake();
        }
    }
}

/// Returns the value that the bell of a rank shows while it waits for `awaited`.
fn bell_value(awaited: usize) -> u32 {
    // At most 1024 ranks, see `ShmConfig::check`.
    u32::try_from(awaited).unwrap_or(u32::MAX - 1) + 1
}
