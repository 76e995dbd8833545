//! How a rank waits: it spins, then yields, then sleeps on its bell.
//!
//! A wake-up through the kernel costs hundreds of times what a flag costs, so a rank that has a
//! processor to itself spins for some microseconds first. With more ranks than processors the one
//! that is waited for may need this very processor, so there a rank yields at once.
//!
//! No wake-up is lost: see [`publisher_fence`] and [`publish`](crate::protocol::sync::publish).

use std::time::{Duration, Instant};

use comm_kit::clock::{self, Clock};
use comm_kit::processors::give_way;
use comm_kit::words::SLOW;

use crate::protocol::board::Board;
use crate::protocol::sync::{Ordering, POLLING, publisher_fence, second_look, sleeper_fence};

/// How often a waiting rank looks whether the others live.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// How long a rank spins when that has paid so far: somewhat longer than a wake-up takes.
const LONGEST_SPIN: Duration = Duration::from_micros(60);

/// How long it spins when that has not.
const SHORTEST_SPIN: Duration = Duration::from_micros(1);

/// How many times a spinning rank looks before it looks at the clock.
const BURST: u32 = 64;

/// How many times a rank that shares its processor yields before it looks at anything else. All ranks of a processor run once while
/// the last of them comes, so one yield is mostly enough, and whatever a rank does beside it costs as many times as there are ranks.
const EAGER_YIELDS: u32 = 2;

/// How long a rank yields before it sleeps.
const YIELD: Duration = Duration::from_millis(1);

/// How long a rank waits in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// Whether each rank may have a processor to itself.
    pub(crate) roomy: bool,
    /// How many times to look for the others before anything else is looked at, with a moment or a yield between.
    pub(crate) eager_looks: u32,
    pub(crate) longest_spin: Duration,
    /// How long to yield before the first sleep; models do not.
    pub(crate) yield_time: Duration,
    /// How often to look whether the others live; models, in which no time passes, look every time.
    pub(crate) look: Duration,
    pub(crate) timeout: Option<Duration>,
}

impl WaitPolicy {
    /// Chooses by the processors that `size` ranks may use together: affinity and control groups count.
    pub(crate) fn new(size: usize, processors: usize, timeout: Option<Duration>) -> Self {
        let roomy = size <= processors;
        let (eager_looks, longest_spin) = if roomy {
            (BURST, LONGEST_SPIN)
        } else {
            (EAGER_YIELDS, Duration::ZERO)
        };
        Self {
            roomy,
            eager_looks,
            longest_spin,
            yield_time: YIELD,
            look: LOOK,
            timeout,
        }
    }

    /// Lets a moment pass before the next look for the others.
    #[inline]
    pub(crate) fn between_looks(&self) {
        if self.roomy {
            std::hint::spin_loop();
        } else {
            give_way();
        }
    }
}

/// How long spinning is worth while: other programs may have left two ranks one processor, where
/// every moment of spinning keeps the other from coming.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SpinTime(Duration);

impl SpinTime {
    pub(crate) fn new(policy: WaitPolicy) -> Self {
        Self(policy.longest_spin)
    }

    /// Learns from a wait that succeeded, from how it was waited last.
    pub(crate) fn learn(&mut self, policy: WaitPolicy, last: Pause) {
        self.0 = match last {
            Pause::Spin => (self.0 * 2).min(policy.longest_spin),
            // Never to nothing: a rank that does not try does not notice that it has a processor to
            // itself again.
            Pause::Yield => (self.0 / 2).max(SHORTEST_SPIN).min(policy.longest_spin),
            // A wait that long teaches nothing about spinning.
            Pause::Sleep => self.0,
        };
    }
}

/// What to do until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    Spin,
    Yield,
    Sleep,
}

/// The time of one wait, and what follows from it.
#[derive(Debug)]
pub(crate) struct Backoff {
    policy: WaitPolicy,
    spin_time: SpinTime,
    clock: Clock,
    since: Instant,
    elapsed: Duration,
    reported: Duration,
    looked: Duration,
}

impl Backoff {
    pub(crate) fn new(policy: WaitPolicy, spin_time: SpinTime) -> Self {
        let clock = Clock::start();
        Self {
            policy,
            spin_time,
            since: clock.last(),
            clock,
            elapsed: Duration::ZERO,
            reported: Duration::ZERO,
            looked: Duration::ZERO,
        }
    }

    /// Looks at the clock and returns how to wait on.
    pub(crate) fn pause(&mut self) -> Pause {
        self.elapsed = self.clock.now() - self.since;
        let SpinTime(spin) = self.spin_time;
        match self.elapsed {
            elapsed if elapsed < spin => Pause::Spin,
            elapsed if elapsed < spin + self.policy.yield_time => Pause::Yield,
            _ => Pause::Sleep,
        }
    }

    /// Looks at the clock after a sleep that was to take `time`.
    pub(crate) fn slept(&mut self, time: Duration) {
        self.elapsed = self.clock.waited(time) - self.since;
    }

    /// Checks whether the timeout has passed.
    pub(crate) fn expired(&self) -> bool {
        self.policy
            .timeout
            .is_some_and(|timeout| self.elapsed >= timeout)
    }

    /// Checks whether it is time to look whether the others live. A rank that is woken often does not
    /// look more often.
    pub(crate) fn look_due(&mut self) -> bool {
        let due = self.elapsed >= self.looked + self.policy.look;
        if due {
            self.looked = self.elapsed;
        }
        due
    }

    /// Returns how long this wait has taken, whenever that is to be reported.
    pub(crate) fn report_due(&mut self) -> Option<Duration> {
        let due = self.elapsed >= self.reported + SLOW;
        due.then(|| {
            self.reported = self.elapsed;
            self.elapsed
        })
    }

    /// Returns how long to sleep now.
    pub(crate) fn sleep_time(&self) -> Duration {
        let shortest = Duration::from_micros(100);
        let time = if POLLING {
            // Nobody wakes this sleeper: short at first, for ranks that are nearly there.
            (self.elapsed / 16).clamp(shortest, Duration::from_millis(2))
        } else {
            let next = (self.looked + LOOK).saturating_sub(self.elapsed);
            next.clamp(shortest, LOOK)
        };
        let time = clock::sleep_limit(Some(time));
        self.policy.timeout.map_or(time, |timeout| {
            let left = timeout.saturating_sub(self.elapsed);
            time.min(left.max(shortest))
        })
    }
}

/// Looks up to [`BURST`] times, without leaving the processor.
pub(crate) fn spin(mut arrived: impl FnMut() -> bool) {
    for _ in 0..BURST {
        if arrived() {
            return;
        }
        std::hint::spin_loop();
    }
}

/// Puts `rank` to sleep until rank `awaited` publishes, an event happens, or `time` is over.
///
/// `stay` looks, after the bell was written, whether there is still reason to sleep.
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

/// Wakes the ranks that sleep until `rank` publishes; called right after it did, by
/// [`publish`](crate::protocol::sync::publish).
#[inline]
pub(crate) fn ring(board: &Board, rank: usize) {
    // Sequentially consistent, as the publication before it.
    if board.control().sleepers.load(Ordering::SeqCst) != 0 {
        wake(board, rank, Some(bell_value(rank)));
    }
}

/// Wakes every rank that sleeps: a refusal, a departure or a cause concerns all.
#[cold]
pub(crate) fn ring_all(board: &Board, rank: usize) {
    wake(board, rank, None);
}

/// Wakes the other ranks whose bell shows `value`, or anything.
#[cold]
fn wake(board: &Board, rank: usize, value: Option<u32>) {
    publisher_fence(Ordering::SeqCst);
    for other in (0..board.size()).filter(|&other| other != rank) {
        let bell = &board.bell(other).word;
        let found = bell.load(Ordering::Relaxed);
        let meant = found != 0 && value.is_none_or(|value| value == found);
        // Only what was found is cleared: the sleeper may wait for another rank by now.
        let cleared = meant
            && bell
                .compare_exchange(found, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if cleared {
            bell.wake();
        }
    }
}

/// Returns what the bell of a rank shows that waits for `awaited`.
fn bell_value(awaited: usize) -> u32 {
    // At most 1024 ranks, see `ShmConfig::check`.
    u32::try_from(awaited).unwrap_or(u32::MAX - 1) + 1
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_share_processors_yield_at_once() {
        for (size, processors, roomy) in [(2, 2, true), (3, 2, false), (64, 2, false)] {
            let policy = WaitPolicy::new(size, processors, None);
            assert_eq!(policy.roomy, roomy);
            assert_eq!(policy.longest_spin.is_zero(), !roomy);
            let mut spin_time = SpinTime::new(policy);
            for last in [Pause::Spin, Pause::Yield, Pause::Sleep] {
                spin_time.learn(policy, last);
                assert_eq!(spin_time.0.is_zero(), !roomy);
            }
        }
    }

    #[test]
    fn ranks_with_a_processor_each_learn_how_long_to_spin() {
        let policy = WaitPolicy::new(2, 2, None);
        let mut spin_time = SpinTime::new(policy);
        for _ in 0..20 {
            spin_time.learn(policy, Pause::Yield);
            spin_time.learn(policy, Pause::Sleep);
        }
        assert_eq!(spin_time.0, SHORTEST_SPIN);
        for _ in 0..20 {
            spin_time.learn(policy, Pause::Spin);
        }
        assert_eq!(spin_time.0, LONGEST_SPIN);
    }
}
