//! Waits in invented time.

use super::*;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A thread whose system tells how long it was queued, or does not.
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

    /// Sleeps as `planned`, is ready to run for `queued` after that, and `stopped` for some time; returns what the clock says.
    fn sleep(&mut self, planned: Duration, queued: Duration, stopped: Duration) -> Duration {
        self.time += planned + queued + stopped;
        self.queued = self.queued.map(|before| before + queued);
        let total = self.queued;
        let now = self.clock.advance(self.time, planned, || total);
        assert_eq!(now, self.clock.last());
        now - self.began
    }

    /// Sleeps, each time for 20 ms and so much longer, until `timeout` is over; returns how long that took.
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
        // And an hour between two looks that no sleep explains.
        let now = thread.sleep(NO, NO, Duration::from_hours(1));
        assert_eq!(now, second * 2 + LATENESS * 2);
    }
}

/// What a suspension costs does not depend on how long it is, and a short one is not taken for a busy machine.
#[test]
fn many_short_suspensions_count_as_moments() {
    for counts in [true, false] {
        let mut thread = Thread::new(counts);
        let took = thread.time_out(ms(10_000), NO, ms(900));
        // 84 of them, each of which counts as 120 ms.
        assert_eq!(took, ms(920) * 84);
    }
}

#[test]
fn a_wait_that_ends_early_or_a_little_late_counts_in_full() {
    let mut thread = Thread::new(false);
    let early = thread.time + ms(3);
    assert_eq!(
        thread.clock.advance(early, LONGEST_SLEEP, || None),
        thread.began + ms(3)
    );
    let late = thread
        .clock
        .advance(early + ms(300), LONGEST_SLEEP, || None);
    assert_eq!(late, thread.began + ms(303));
}

/// A timeout of 20 s on a machine on which 50 others want each processor.
#[test]
fn a_timeout_on_a_busy_machine_lasts_as_long_as_it_says() {
    let timeout = ms(20_000);
    // A little late every time, which counts on every system.
    for counts in [true, false] {
        let took = Thread::new(counts).time_out(timeout, ms(40), NO);
        assert!((timeout..timeout + ms(60)).contains(&took), "{took:?}");
    }
    // Very late every time. The first sleep, before which nobody asked, counts as one suspension does.
    for late in [ms(150), ms(400), ms(3000)] {
        let took = Thread::new(true).time_out(timeout, late, NO);
        let most = timeout + late + late;
        assert!((timeout..=most).contains(&took), "{took:?}");
    }
}

/// A job on a busy machine that is suspended, too, is late for its timeout by as long as it was suspended.
#[test]
fn a_suspension_on_a_busy_machine_does_not_count() {
    let mut thread = Thread::new(true);
    thread.sleep(ms(20), NO, NO);
    let before = thread.sleep(ms(20), ms(400), NO);
    let after = thread.sleep(ms(20), ms(400), ms(60_000));
    assert_eq!(after, before + ms(420) + LATENESS);
    // What a thread waited before the last look is no excuse for a suspension after it.
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
    let asked = || -> Option<Duration> { panic!("asked") };
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
        thread.clock.advance(time, NO, || {
            asked += 1;
            Some(NO)
        });
    }
    assert_eq!(asked, 100);
}

#[test]
fn sleeps_are_short() {
    assert_eq!(sleep_limit(None), LONGEST_SLEEP);
    assert_eq!(sleep_limit(Some(Duration::MAX)), LONGEST_SLEEP);
    assert_eq!(sleep_limit(Some(Duration::ZERO)), Duration::ZERO);
}
