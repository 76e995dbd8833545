//! The clock of every timeout. It counts only time in which this process could run.
//!
//! A job that is suspended as a whole (`SIGSTOP`, a scheduler's suspend, a paused container, a closed laptop)
//! must continue when it is resumed. By wall time every rank would be late; this clock does not count by how
//! much a wait overran its plan. For that to work, no wait may be planned to be long.
//!
//! A rank that is runnable but has no processor is not suspended. That time counts in full, so that a timeout
//! on a busy machine lasts as long as configured.

mod queue;

use std::time::{Duration, Instant};

use crate::interrupt;

use queue::Queued;

/// The longest planned sleep before the clock is read again: at most this much of a suspension counts.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// By how much a wait may overrun its plan and still count in full, whatever the reason. Used where the
/// system does not report how long a thread was runnable.
const LATENESS: Duration = Duration::from_millis(100);

/// How often a thread asks the system how long it was runnable. Runnable time from before the last query may
/// be mistaken for suspension, but no more than this.
const ASKED: Duration = Duration::from_millis(100);

/// A wait shorter than this does not query the system.
const SHORT: Duration = Duration::from_millis(1);

/// Measures the time of one wait, or of several waits of one thread.
///
/// Compare its instants only with each other, not with those of the system.
///
/// ```
/// use comm_kit::clock::{Clock, LONGEST_SLEEP, sleep_limit};
/// use std::time::Duration;
///
/// let mut clock = Clock::start();
/// let deadline = clock.now() + Duration::from_millis(30);
/// while clock.now() < deadline {
///     let limit = sleep_limit(Some(deadline - clock.now()));
///     assert!(limit <= LONGEST_SLEEP);
///     std::thread::sleep(limit); // any wait that ends by then
///     clock.waited(limit);
/// }
/// ```
#[derive(Debug, Clone)]
pub struct Clock {
    now: Instant,
    looked: Instant,
    /// How long this thread had been runnable without running at the last query.
    queued: Option<Duration>,
    /// When to query again.
    ask: Instant,
}

impl Clock {
    /// Starts at the time of the system.
    #[must_use]
    pub fn start() -> Self {
        let now = Instant::now();
        Self {
            now,
            looked: now,
            queued: None,
            ask: now + SHORT,
        }
    }

    /// Returns the time of the last reading.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Instant {
        self.now
    }

    /// Returns the time after work without sleep since the last reading.
    #[inline]
    pub fn now(&mut self) -> Instant {
        self.waited(Duration::ZERO)
    }

    /// Returns the time after a wait that was to end within `planned`.
    #[inline]
    pub fn waited(&mut self, planned: Duration) -> Instant {
        self.advance(Instant::now(), planned, Queued::of_this_thread)
    }

    /// Advances to the system's `time`, limited to `planned`, plus some lateness, plus the time for which
    /// this thread was `queued` for a processor, as known at some instant or later.
    fn advance(
        &mut self,
        time: Instant,
        planned: Duration,
        queued: impl FnOnce(Instant) -> Queued,
    ) -> Instant {
        let passed = time.saturating_duration_since(self.looked);
        let mut counted = planned.saturating_add(LATENESS);
        self.looked = time;
        let late = passed > counted;
        if late || time >= self.ask {
            // A wait that was on time only begins to count, so the value known from the thread's last wait is
            // good enough.
            let recent = if late {
                Some(time)
            } else {
                time.checked_sub(ASKED)
            };
            let asked = queued(recent.unwrap_or(time));
            let before = std::mem::replace(&mut self.queued, asked.time);
            self.ask = asked.at + ASKED;
            let both = self.queued.zip(before);
            let since = both.map_or(Duration::ZERO, |(now, then)| now.saturating_sub(then));
            counted = counted.saturating_add(since);
        }
        self.now += passed.min(counted);
        self.now
    }
}

/// Limits a sleep, so that the clock is read and the hook is called often enough.
#[must_use]
pub fn sleep_limit(wanted: Option<Duration>) -> Duration {
    let longest = if interrupt::is_watched() {
        interrupt::INTERVAL
    } else {
        LONGEST_SLEEP
    };
    wanted.map_or(longest, |wanted| wanted.min(longest))
}

#[cfg(test)]
mod tests;
