//! The clock of every timeout: time in which this process could run.
//!
//! A job that is suspended as a whole (`SIGSTOP`, a scheduler's suspend, a paused container, a closed
//! laptop) must go on when it wakes. Wall time says that everybody is late; this clock does not
//! count what a wait took beyond its plan. For that to work, nobody plans to wait for long.

use std::time::{Duration, Instant};

use crate::interrupt;

/// The longest a rank may plan to sleep before it looks at the clock again: as much of a suspension may
/// count.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(250);

/// How much longer than planned a wait may take and still count: processors are shared, and a rank
/// that is ready to run may have to wait for one.
const LATENESS: Duration = Duration::from_millis(100);

/// Counts the time of one wait, or of several.
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
}

impl Clock {
    /// Starts at the system's time.
    #[must_use]
    pub fn start() -> Self {
        let now = Instant::now();
        Self { now, looked: now }
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
        self.advance(Instant::now(), planned)
    }

    /// Advances to the system's `time`, but no further than `planned` and some lateness.
    fn advance(&mut self, time: Instant, planned: Duration) -> Instant {
        let passed = time.saturating_duration_since(self.looked);
        self.looked = time;
        self.now += passed.min(planned.saturating_add(LATENESS));
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
mod tests {
    use super::*;

    #[test]
    fn a_suspension_counts_as_a_moment() {
        let mut clock = Clock::start();
        let (began, system) = (clock.now, clock.looked);
        let second = Duration::from_secs(1);
        assert_eq!(clock.advance(system + second, second), began + second);
        // Stopped for an hour in a sleep of a second.
        let woken = system + second + Duration::from_hours(1);
        let now = clock.advance(woken, second);
        assert_eq!(now, began + second * 2 + LATENESS);
        // And an hour between two looks that no sleep explains.
        let now = clock.advance(woken + Duration::from_hours(1), Duration::ZERO);
        assert_eq!(now, began + second * 2 + LATENESS * 2);
        assert_eq!(clock.last(), now);
    }

    #[test]
    fn a_wait_that_ends_early_or_a_little_late_counts_in_full() {
        let mut clock = Clock::start();
        let (began, system) = (clock.now, clock.looked);
        let (short, late) = (Duration::from_millis(3), Duration::from_millis(300));
        assert_eq!(clock.advance(system + short, LONGEST_SLEEP), began + short);
        let now = clock.advance(system + short + late, LONGEST_SLEEP);
        assert_eq!(now, began + short + late);
    }

    #[test]
    fn sleeps_are_short() {
        assert_eq!(sleep_limit(None), LONGEST_SLEEP);
        assert_eq!(sleep_limit(Some(Duration::MAX)), LONGEST_SLEEP);
        assert_eq!(sleep_limit(Some(Duration::ZERO)), Duration::ZERO);
    }
}
