//! How a rank waits: it spins, then yields, then sleeps on its bell.
//!
//! A wake-up through the kernel costs hundreds of times what a flag costs, so a rank that has a
//! processor to itself spins for some microseconds first. With more ranks than processors the one
//! that is waited for may need this very processor, so there a rank yields at once. If that was in vain and the ranks are many, it
//! spins then: all ranks of this processor have run meanwhile, so the missing one is on another, and the next turn of this rank is far.
//!
//! No wake-up is lost: see [`publisher_fence`] and [`publish`](crate::sync::publish).

use std::time::{Duration, Instant};

use comm_kit::clock::{self, Clock};
use comm_kit::processors::give_way;
use comm_kit::words::SLOW;

use crate::board::Board;
use crate::sync::{Ordering, POLLING, publisher_fence, second_look, sleeper_fence};

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

/// From how many ranks per processor on a rank spins after its first yield.
const MANY: usize = 8;

/// How long it spins then, for each rank of a processor: half as long as all of them take for their turns. Processors seldom have equally many
/// ranks, and the one with fewer of them is ahead by that.
const SPIN_PER_RANK: Duration = Duration::from_micros(1);

/// How long a rank yields before it sleeps.
const SHORTEST_YIELD: Duration = Duration::from_millis(1);

/// How long, for each of [`MANY`] ranks of a processor: a sleeper is woken on whichever processor the system likes, and many that were asleep at
/// once are spread unevenly.
const YIELD_PER_RANK: Duration = Duration::from_micros(250);

/// After how many waits at most a rank that spun in vain tries it again, as a power of two.
const LONGEST_REST: u32 = 6;

/// How long a rank waits in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitPolicy {
    /// Whether each rank may have a processor to itself.
    pub(crate) roomy: bool,
    /// How many times to look for the others before anything else is looked at, with a moment or a yield between.
    pub(crate) eager_looks: u32,
    pub(crate) longest_spin: Duration,
    /// How long to yield before the first sleep.
    pub(crate) yield_time: Duration,
    /// How often to look whether the others live; models, in which no time passes, look every time.
    pub(crate) look: Duration,
    pub(crate) timeout: Option<Duration>,
}

impl WaitPolicy {
    /// Chooses by the processors that `size` ranks may use together: affinity and control groups count.
    pub(crate) fn new(size: usize, processors: usize, timeout: Option<Duration>) -> Self {
        let roomy = size <= processors;
        let (eager_looks, longest_spin, yield_time) = match size / processors.max(1) {
            _ if roomy => (BURST, LONGEST_SPIN, SHORTEST_YIELD),
            many @ MANY.. => {
                // At most 1024 ranks.
                let many = u32::try_from(many).unwrap_or(0);
                (1, SPIN_PER_RANK * many, YIELD_PER_RANK * many)
            }
            _ => (EAGER_YIELDS, Duration::ZERO, SHORTEST_YIELD),
        };
        Self {
            roomy,
            eager_looks,
            longest_spin,
            yield_time,
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
pub(crate) struct SpinTime {
    time: Duration,
    /// How many times in a row it was in vain, where ranks share processors.
    failures: u32,
    /// For how many waits not to try again.
    resting: u32,
}

impl SpinTime {
    pub(crate) fn new(policy: WaitPolicy) -> Self {
        Self {
            time: policy.longest_spin,
            failures: 0,
            resting: 0,
        }
    }

    /// Returns how long to spin in the next wait.
    fn next(self) -> Duration {
        if self.resting > 0 {
            Duration::ZERO
        } else {
            self.time
        }
    }

    /// Learns from a wait that succeeded, from how it was waited last.
    pub(crate) fn learn(&mut self, policy: WaitPolicy, last: Pause) {
        if !policy.roomy {
            return self.learn_in_a_crowd(last);
        }
        self.time = match last {
            Pause::Spin => (self.time * 2).min(policy.longest_spin),
            // Never to nothing: a rank that does not try does not notice that it has a processor to
            // itself again.
            Pause::Yield => (self.time / 2).max(SHORTEST_SPIN).min(policy.longest_spin),
            // A wait that long teaches nothing about spinning.
            Pause::Sleep => self.time,
        };
    }

    /// A shorter time would be in vain each time, so it spins less often instead: where a rank is late because it computes, the others take the
    /// processor away from it.
    fn learn_in_a_crowd(&mut self, last: Pause) {
        if self.resting > 0 {
            self.resting -= 1;
        } else if last == Pause::Spin {
            self.failures = 0;
        } else {
            self.failures = (self.failures + 1).min(LONGEST_REST);
            self.resting = 1 << self.failures;
        }
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
        let spin = self.spin_time.next();
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
/// [`publish`](crate::sync::publish).
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
    fn many_ranks_on_a_processor_yield_once_and_then_spin() {
        let policy = |size, processors| {
            let policy = WaitPolicy::new(size, processors, None);
            assert_eq!(policy.roomy, size <= processors);
            let times = [policy.longest_spin, policy.yield_time];
            (policy.eager_looks, times.map(|time| time.as_micros()))
        };
        assert_eq!(policy(2, 2), (64, [60, 1_000]));
        assert_eq!(policy(15, 2), (2, [0, 1_000]));
        assert_eq!(policy(16, 2), (1, [8, 2_000]));
        assert_eq!(policy(64, 2), (1, [32, 8_000]));
    }

    /// A rank that computes is not disturbed for long, and one that is late by a little is soon waited for again.
    #[test]
    fn ranks_of_a_crowd_that_spin_in_vain_try_it_less_and_less_often() {
        let policy = WaitPolicy::new(64, 2, None);
        let mut spin_time = SpinTime::new(policy);
        let mut tries = Vec::new();
        for wait in 0..300 {
            let spins = spin_time.next() > Duration::ZERO;
            tries.extend(spins.then_some(wait));
            let last = [Pause::Yield, Pause::Sleep][wait % 2];
            spin_time.learn(policy, last);
        }
        assert_eq!(tries, [0, 3, 8, 17, 34, 67, 132, 197, 262]);
        while spin_time.next() == Duration::ZERO {
            spin_time.learn(policy, Pause::Yield);
        }
        for _ in 0..3 {
            spin_time.learn(policy, Pause::Spin);
            assert_eq!(spin_time.next(), policy.longest_spin);
        }
        // As after the first failure.
        spin_time.learn(policy, Pause::Yield);
        let rest = (0..100).take_while(|_| {
            spin_time.learn(policy, Pause::Yield);
            spin_time.next() == Duration::ZERO
        });
        assert_eq!(rest.count(), 1);
    }

    #[test]
    fn ranks_with_a_processor_each_learn_how_long_to_spin() {
        let policy = WaitPolicy::new(2, 2, None);
        let mut spin_time = SpinTime::new(policy);
        for _ in 0..20 {
            spin_time.learn(policy, Pause::Yield);
            spin_time.learn(policy, Pause::Sleep);
        }
        assert_eq!(spin_time.next(), SHORTEST_SPIN);
        for _ in 0..20 {
            spin_time.learn(policy, Pause::Spin);
        }
        assert_eq!(spin_time.next(), LONGEST_SPIN);
    }
}
