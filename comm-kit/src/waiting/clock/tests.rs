//! Waits in simulated time.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A thread whose system reports the queued time, or does not.
struct Thread {
    clock: Clock,
    began: Instant,
    time: Instant,
    queued: Option<Duration>,
}

impl Thread {
    fn new(counts: bool) -> Self {
        let clock = Clock::start();
        Self {
            began: clock.now,
            time: clock.looked,
            clock,
            queued: counts.then_some(Duration::ZERO),
        }
    }

    /// Sleeps as `planned`, then is runnable for `queued`, with some time `stopped`; returns the clock's
    /// reading.
    fn sleep(&mut self, planned: Duration, queued: Duration, stopped: Duration) -> Duration {
        self.time += planned + queued + stopped;
        self.queued = self.queued.map(|before| before + queued);
        let told = Queued {
            time: self.queued,
            at: self.time,
        };
        let now = self.clock.advance(self.time, planned, |_| told);
        assert_eq!(now, self.clock.last());
        now - self.began
    }

    /// Sleeps 20 ms plus some lateness, again and again, until `timeout` is over; returns how long that took.
    fn time_out(&mut self, timeout: Duration, queued: Duration, stopped: Duration) -> Duration {
        let start = self.time;
        let deadline = self.clock.last() + timeout;
        while self.clock.last() < deadline {
            self.sleep(ms(20), queued, stopped);
        }
        self.time - start
    }
}

const NO: Duration = Duration::ZERO;

#[test]
fn a_suspension_counts_as_a_moment() {
    for counts in [true, false] {
        let mut thread = Thread::new(counts);
        let second = Duration::from_secs(1);
        assert_eq!(thread.sleep(second, NO, NO), second);
        // Stopped for an hour in a sleep of a second.
        let now = thread.sleep(second, NO, Duration::from_hours(1));
        assert_eq!(now, second * 2 + LATENESS);
        // And an hour between two readings without a sleep.
        let now = thread.sleep(NO, NO, Duration::from_hours(1));
        assert_eq!(now, second * 2 + LATENESS * 2);
    }
}

/// The cost of a suspension does not depend on its length, and a short one is not mistaken for a busy
/// machine.
#[test]
fn many_short_suspensions_count_as_moments() {
    for counts in [true, false] {
        let mut thread = Thread::new(counts);
        let took = thread.time_out(ms(10_000), NO, ms(900));
        // 84 suspensions, each of which counts as 120 ms.
        assert_eq!(took, ms(920) * 84);
    }
}

#[test]
fn a_wait_that_ends_early_or_a_little_late_counts_in_full() {
    let mut thread = Thread::new(false);
    let told = |at| move |_| Queued { time: None, at };
    let early = thread.time + ms(3);
    let now = thread.clock.advance(early, LONGEST_SLEEP, told(early));
    assert_eq!(now, thread.began + ms(3));
    let late = early + ms(300);
    let now = thread.clock.advance(late, LONGEST_SLEEP, told(late));
    assert_eq!(now, thread.began + ms(303));
}

/// A timeout of 20 s on a machine on which 50 other threads want each processor.
#[test]
fn a_timeout_on_a_busy_machine_lasts_as_long_as_it_says() {
    let timeout = ms(20_000);
    // Slightly late every time, which counts on every system.
    for counts in [true, false] {
        let took = Thread::new(counts).time_out(timeout, ms(40), NO);
        assert!((timeout..timeout + ms(60)).contains(&took), "{took:?}");
    }
    // Very late every time. The first sleep, with no query before it, counts as one suspension.
    for late in [ms(150), ms(400), ms(3000)] {
        let took = Thread::new(true).time_out(timeout, late, NO);
        let most = timeout + late + late;
        assert!((timeout..=most).contains(&took), "{took:?}");
    }
}

/// A job that is suspended on a busy machine times out later by the length of the suspension.
#[test]
fn a_suspension_on_a_busy_machine_does_not_count() {
    let mut thread = Thread::new(true);
    thread.sleep(ms(20), NO, NO);
    let before = thread.sleep(ms(20), ms(400), NO);
    let after = thread.sleep(ms(20), ms(400), ms(60_000));
    assert_eq!(after, before + ms(420) + LATENESS);
    // Time that a thread was queued before the last query does not excuse a later suspension.
    for _ in 0..10 {
        thread.sleep(ms(20), ms(90), NO);
    }
    let before = thread.clock.last() - thread.began;
    let after = thread.sleep(ms(20), NO, ms(60_000));
    assert!(after <= before + ms(20) + LATENESS + ASKED, "{after:?}");
}

#[test]
fn a_short_wait_asks_the_system_nothing() {
    let mut thread = Thread::new(true);
    let asked = |_| -> Queued { panic!("asked") };
    for looks in 1..1000 {
        let time = thread.time + Duration::from_micros(looks);
        thread.clock.advance(time, NO, asked);
    }
}

#[test]
fn a_long_wait_asks_the_system_ten_times_a_second() {
    let mut thread = Thread::new(true);
    let mut asked = 0;
    for looks in 1..=10_000 {
        let time = thread.time + ms(looks);
        thread.clock.advance(time, NO, |_| {
            asked += 1;
            Queued {
                time: Some(NO),
                at: time,
            }
        });
    }
    assert_eq!(asked, 100);
}

/// A thousand waits, each slightly longer than a short one.
#[test]
fn what_one_wait_was_told_serves_the_next_ones() {
    let mut last: Option<Queued> = None;
    let mut asked = 0;
    let mut time = Instant::now();
    for _ in 0..1000 {
        let mut clock = Clock::start();
        (clock.now, clock.looked, clock.ask) = (time, time, time + SHORT);
        time += ms(2);
        clock.advance(time, NO, |recent| {
            *last.insert(last.filter(|last| last.at >= recent).unwrap_or_else(|| {
                asked += 1;
                Queued {
                    time: Some(NO),
                    at: time,
                }
            }))
        });
        // At the next query, the cached value is never older than a tenth of a second.
        assert!(clock.ask <= time + ASKED && clock.ask >= time);
    }
    assert_eq!(asked, 20);
}

/// A late wait queries the system, however recent the cached value.
#[test]
fn a_wait_that_is_late_asks_for_what_is_true_now() {
    let mut thread = Thread::new(true);
    let late = thread.time + ms(500);
    let mut from = None;
    thread.clock.advance(late, NO, |recent| {
        from = Some(recent);
        Queued {
            time: Some(NO),
            at: late,
        }
    });
    assert_eq!(from, Some(late));
}

#[test]
fn sleeps_are_short() {
    assert_eq!(sleep_limit(None), LONGEST_SLEEP);
    assert_eq!(sleep_limit(Some(Duration::MAX)), LONGEST_SLEEP);
    assert_eq!(sleep_limit(Some(Duration::ZERO)), Duration::ZERO);
}
