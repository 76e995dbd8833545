//! How a rank waits: it spins, then yields, then sleeps.
//!
//! | phase | lasts | between two looks |
//! |---|---|---|
//! | eager | 64 looks; two where ranks share processors | a short pause; a yield where ranks share processors |
//! | spin | 20 us; not at all where ranks share processors | a short pause |
//! | yield | one more millisecond | a yield |
//! | sleep | the rest of the wait | a sleep, implemented by the backend |
//!
//! A wake-up through the kernel takes about 40 us, a message or a flag much less, so a rank with a processor
//! to itself spins first. With more ranks than processors, the awaited rank may need this very processor, so
//! a rank yields at once. The eager phase only looks, without even reading the clock: while the last rank of
//! a processor arrives, all others run once each, and everything they do beyond the look is multiplied by the
//! number of ranks.
//!
//! Having as many processors as ranks does not mean that each rank has one: the scheduler may run two ranks
//! on one processor, where each spins away the time that the other needs. A [`Policy`] learns that from the
//! yields of one wait and applies it to the next. A yield that returns at once found no other thread to run;
//! one that returns after milliseconds ran an unrelated busy program; one in between ran the awaited rank.
//! After the last kind, a rank does not spin for the next 200 waits, or until a yield shows otherwise.
//!
//! A backend defines what a look is and how to sleep:
//!
//! ```
//! use comm_kit::processors::give_way;
//! use comm_kit::wait::{Backoff, Pause, Policy};
//! use std::sync::atomic::{AtomicBool, Ordering};
//! use std::time::Duration;
//!
//! fn wait_for(flag: &AtomicBool, policy: &mut Policy) {
//!     let mut backoff = Backoff::new(*policy);
//!     while !flag.load(Ordering::Acquire) {
//!         match backoff.pause() {
//!             Pause::Spin => std::hint::spin_loop(),
//!             Pause::Yield => give_way(),
//!             Pause::Sleep => {
//!                 let nap = backoff.nap(Duration::from_millis(2));
//!                 std::thread::sleep(nap);
//!                 backoff.slept(nap);
//!             }
//!         }
//!     }
//!     *policy = backoff.finish();
//! }
//!
//! let mut policy = Policy::new(2, 2);
//! wait_for(&AtomicBool::new(true), &mut policy);
//! ```

use std::time::{Duration, Instant};

use crate::clock::Clock;
use crate::processors::give_way;

/// How many times a rank with a processor to itself looks between two readings of the clock.
const BURST: u32 = 64;

/// How many times a rank that shares its processor yields before it reads the clock. If the awaited rank runs
/// on its own processor, one yield mostly suffices.
const EAGER_YIELDS: u32 = 2;

/// How long a rank with a processor to itself spins before it yields: about one round trip over a socket.
const SPIN: Duration = Duration::from_micros(20);

/// How long a rank yields before it sleeps.
const YIELD: Duration = Duration::from_millis(1);

/// For how many waits a rank assumes that it shares its processor with another rank.
const SHARING: u16 = 200;

/// How long a yield and a look take at least if another thread ran: more than twice the time they take
/// without one.
const TAKEN: Duration = Duration::from_micros(2);

/// How soon the awaited event follows a yield if the yield ran a rank of the job.
const SOON: Duration = Duration::from_micros(200);

/// How long to wait in which way, and what earlier waits have taught.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How many times to look before anything else happens, with [`between_looks`](Self::between_looks) in
    /// between.
    pub eager_looks: u32,
    /// Whether each rank may have a processor to itself.
    roomy: bool,
    yielding: Duration,
    /// How many waits begin without spinning.
    sharing: u16,
}

impl Policy {
    /// Neither spins nor yields: for models, in which no time passes.
    pub const ASLEEP: Self = Self {
        eager_looks: 0,
        roomy: false,
        yielding: Duration::ZERO,
        sharing: 0,
    };

    /// Never spins: for ranks that do not know how many ranks share their machine.
    pub const CROWDED: Self = Self {
        eager_looks: EAGER_YIELDS,
        roomy: false,
        yielding: YIELD,
        sharing: 0,
    };

    /// Chooses by the processors that the `ranks` of this machine may use together.
    #[must_use]
    pub const fn new(ranks: usize, processors: usize) -> Self {
        if ranks > processors {
            return Self::CROWDED;
        }
        Self {
            eager_looks: BURST,
            roomy: true,
            ..Self::CROWDED
        }
    }

    /// Returns whether each rank may have a processor to itself.
    #[must_use]
    pub const fn is_roomy(&self) -> bool {
        self.roomy
    }

    /// Pauses briefly before the next look.
    #[inline]
    pub fn between_looks(&self) {
        if self.roomy {
            std::hint::spin_loop();
        } else {
            give_way();
        }
    }

    /// Returns for how long to spin before the first yield.
    fn spin(&self) -> Duration {
        if self.roomy { SPIN } else { Duration::ZERO }
    }
}

/// Looks up to 64 times with a pause in between, without yielding or reading the clock.
#[inline]
pub fn spin(mut arrived: impl FnMut() -> bool) {
    for _ in 0..BURST {
        if arrived() {
            return;
        }
        std::hint::spin_loop();
    }
}

/// What to do until the next look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Look again at once, or a few times: [`spin`].
    Spin,
    /// Yield the processor once.
    Yield,
    /// Sleep, and report it with [`Backoff::slept`].
    Sleep,
}

/// Tracks the time of one wait, and decides how to wait.
#[derive(Debug)]
pub struct Backoff {
    policy: Policy,
    /// Started by the first reading of the clock: a wait that is over at once does not read it.
    clock: Option<Clock>,
    /// When something last moved.
    since: Option<Instant>,
    /// When the first yield since then began, and how many yields have followed.
    yielded: Option<(Instant, u32)>,
    /// How many times to yield before the next reading of the clock.
    eager: u32,
}

impl Backoff {
    /// Begins a wait.
    #[must_use]
    pub const fn new(policy: Policy) -> Self {
        Self {
            policy,
            clock: None,
            since: None,
            yielded: None,
            eager: if policy.roomy { 0 } else { policy.eager_looks },
        }
    }

    /// Returns whether to yield before anything else, even a reading of the clock: a few times, where ranks
    /// share processors. For a wait without an eager phase of its own.
    ///
    /// Does not repeat without a reading of the clock, even after progress: ranks that enter one after the
    /// other must not stop the clock.
    #[inline]
    pub fn gives_way(&mut self) -> bool {
        let eager = self.eager > 0;
        self.eager = self.eager.saturating_sub(1);
        eager
    }

    /// Reads the clock and returns how to wait until the next look.
    pub fn pause(&mut self) -> Pause {
        let (pause, _, _) = self.pause_at();
        pause
    }

    /// Returns what [`pause`](Self::pause) returns, the time, and when something last moved.
    pub fn pause_at(&mut self) -> (Pause, Instant, Instant) {
        let now = match &mut self.clock {
            Some(clock) => clock.now(),
            None => self.clock.insert(Clock::start()).last(),
        };
        let since = *self.since.get_or_insert_with(|| {
            self.policy.sharing = self.policy.sharing.saturating_sub(1);
            now
        });
        let (waited, spin) = (now - since, self.policy.spin());
        let pause = if waited < spin && self.policy.sharing == 0 {
            Pause::Spin
        } else if waited < spin + self.policy.yielding {
            // A rank that never spins has nothing to learn.
            if self.policy.roomy {
                self.yielded.get_or_insert((now, 0)).1 += 1;
            }
            Pause::Yield
        } else {
            Pause::Sleep
        };
        (pause, now, since)
    }

    /// Records a sleep that was planned to end within `planned`.
    pub fn slept(&mut self, planned: Duration) {
        self.clock.get_or_insert_with(Clock::start).waited(planned);
    }

    /// Records progress: the wait begins anew.
    pub fn moved(&mut self) {
        if self.since.take().is_none() {
            return;
        }
        self.eager = Self::new(self.policy).eager;
        if let (Some((first, yields)), Some(clock)) = (self.yielded.take(), &mut self.clock) {
            let took = clock.now() - first;
            self.policy.sharing = if shares(took, yields) { SHARING } else { 0 };
        }
    }

    /// Ends the wait and returns what it taught, for the next one.
    #[must_use]
    pub fn finish(mut self) -> Policy {
        self.moved();
        self.policy
    }

    /// Returns the time since something last moved, as of the last reading of the clock.
    #[must_use]
    pub fn waited(&self) -> Duration {
        let moment = self.clock.as_ref().zip(self.since);
        moment.map_or(Duration::ZERO, |(clock, since)| clock.last() - since)
    }

    /// Returns whether the timeout has passed.
    #[must_use]
    pub fn expired(&self, timeout: Option<Duration>) -> bool {
        timeout.is_some_and(|timeout| self.waited() >= timeout)
    }

    /// Returns how long a rank that is not woken may sleep now: a sixteenth of the time it has waited, so
    /// that it is late by at most that fraction, and never longer than `longest`.
    #[must_use]
    pub fn nap(&self, longest: Duration) -> Duration {
        (self.waited() / 16).min(longest)
    }
}

/// Returns whether a finished wait shows that a rank of the job shares this processor: the yields in it ran
/// another thread, for a short time.
fn shares(took: Duration, yields: u32) -> bool {
    took < SOON && took >= TAKEN * yields
}

/// Tracks when a periodic action of a wait is due.
#[derive(Debug, Clone, Copy)]
pub struct Every {
    interval: Duration,
    last: Duration,
}

impl Every {
    /// Counts from the beginning of the wait.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self {
            interval,
            last: Duration::ZERO,
        }
    }

    /// Returns whether the action is due after `waited`; if so, the next period starts there.
    pub fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= self.last + self.interval;
        if due {
            self.last = waited;
        }
        due
    }

    /// Returns the time until the action is due.
    #[must_use]
    pub fn left(&self, waited: Duration) -> Duration {
        (self.last + self.interval).saturating_sub(waited)
    }
}

#[cfg(test)]
mod tests;
