//! The clock of every timeout: time in which this process could run.
//!
//! A job that is suspended as a whole (`SIGSTOP`, a scheduler's suspend, a paused container, a closed
//! laptop) must go on when it wakes. Wall time says that everybody is late; this clock does not
//! count what a wait took beyond its plan. For that to work, nobody plans to wait for long.
//!
//! A rank that is ready to run and has no processor is not suspended. That time counts, however long it
//! is, so that a timeout on a busy machine lasts as long as it says.

mod queue;

use std::time::{Duration, Instant};

use crate::interrupt;

use queue::Queued;

/// The longest a rank may plan to sleep before it looks at the clock again: as much of a suspension may
/// count.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// How much longer than planned a wait may take and still count, whatever kept it. Where the system does not
/// say how long a thread was ready to run, this stands for it.
const LATENESS: Duration = Duration::from_millis(100);

/// How often a thread asks the system how long it was ready to run: what was so before the last look, and is
/// taken for a part of a suspension, is no more than this.
const ASKED: Duration = Duration::from_millis(100);

/// A wait that ends sooner asks the system nothing.
const SHORT: Duration = Duration::from_millis(1);

/// Counts the time of one wait, or of several of one thread.
///
/// Its instants are its own: compare them with each other, not with those of the system.
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
    /// How long this thread had been ready to run, and had not, when the system was asked last.
    queued: Option<Duration>,
    /// When to ask again.
    ask: Instant,
}

impl Clock {
    /// Starts at the system's time.
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

    /// Returns the time of the last look.
    #[inline]
    #[must_use]
    pub fn last(&self) -> Instant {
        self.now
    }

    /// Returns the time, having worked but not slept since the last look.
    #[inline]
    pub fn now(&mut self) -> Instant {
        self.waited(Duration::ZERO)
    }

    /// Returns the time after a wait that was to end within `planned`.
    #[inline]
    pub fn waited(&mut self, planned: Duration) -> Instant {
        self.advance(Instant::now(), planned, Queued::of_this_thread)
    }

    /// Advances to the system's `time`, but no further than `planned`, some lateness, and the time for which
    /// this thread was `queued` for a processor: what was known of that at an instant, or later.
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
            // A wait that has been on time only begins to count, and what the thread knows from its last one serves as well.
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

/// Limits a sleep, so that the clock is looked at often enough and a hook is asked in time.
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
