//! How a rank waits: it spins, then yields, then sleeps.
//!
//! | phase | lasts | between two looks for what is waited for |
//! |---|---|---|
//! | eager | 64 looks; two where ranks share processors | a moment; the processor is given away where ranks share processors |
//! | spin | 20 us; not at all where ranks share processors | a moment |
//! | yield | a millisecond more | the processor is given away |
//! | sleep | until it comes | a sleep of the kind that the backend has |
//!
//! A wake-up through the kernel takes some 40 us, a message or a flag much less, so a rank that has a processor to itself spins
//! first. With more ranks than processors the rank that is waited for may need this very processor, so there a rank yields at
//! once. Nothing but the look happens in the eager phase, not even a look at the clock: all ranks of a processor run once while the
//! last of them comes, and whatever each does beside that costs as many times as there are ranks.
//!
//! As many processors as ranks does not mean that each rank has one: the scheduler may run two on one, where each spins away the
//! time that the other needs. A [`Policy`] learns that from one wait to the next, from what became of its yields: one that comes
//! back at once was taken up by nobody, one that comes back after milliseconds by a busy program of somebody else, and one between
//! by the rank that was waited for. A rank that has learnt this does not spin for the next 200 waits, or until a yield says otherwise.
//!
//! A backend says what a look is and how to sleep:
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

/// How many times a rank with a processor to itself looks before it looks at the clock, at first and again and again.
const BURST: u32 = 64;

/// How many times a rank that shares its processor yields before it looks at the clock. Who waits for a rank on its own processor
/// mostly has what it waits for after one.
const EAGER_YIELDS: u32 = 2;

/// How long a rank with a processor to itself spins before it lets others have it: about one round trip over a socket.
const SPIN: Duration = Duration::from_micros(20);

/// How long a rank yields before it sleeps.
const YIELD: Duration = Duration::from_millis(1);

/// For how many waits a rank takes it that it shares its processor with another rank.
const SHARING: u16 = 200;

/// How long a yield and a look take at least if somebody was given the processor: more than twice what they take where nobody else
/// wants it.
const TAKEN: Duration = Duration::from_micros(2);

/// How soon what was waited for comes after a yield if a rank of the job was given the processor.
const SOON: Duration = Duration::from_micros(200);

/// Says how long to wait in which way, and what was learnt of that.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// How many times to look before anything else is looked at, with [`between_looks`](Self::between_looks) between.
    pub eager_looks: u32,
    /// Whether each rank may have a processor to itself.
    roomy: bool,
    yielding: Duration,
    /// How many waits are still to begin without spinning.
    sharing: u16,
}

impl Policy {
    /// Does not spin or yield at all: for models, in which no time passes.
    pub const ASLEEP: Self = Self {
        eager_looks: 0,
        roomy: false,
        yielding: Duration::ZERO,
        sharing: 0,
    };

    /// Never spins: for ranks that do not know how many they are on their machine.
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

    /// Lets a moment pass before the next look.
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

/// Looks up to 64 times, with a moment between, and without leaving the processor or looking at the clock.
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
    /// Give the processor away once.
    Yield,
    /// Sleep, and say so: [`Backoff::slept`].
    Sleep,
}

/// The time of one wait, and what follows from it.
#[derive(Debug)]
pub struct Backoff {
    policy: Policy,
    /// Started by the first look at the clock: what is there costs none.
    clock: Option<Clock>,
    /// Since when nothing has moved.
    since: Option<Instant>,
    /// When it yielded first since then, and how many times it has.
    yielded: Option<(Instant, u32)>,
    /// How many times to yield before the next look at the clock.
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

    /// Returns whether to give the processor away before anything else, even a look at the clock: a few times, where ranks share
    /// processors. For a wait that has no eager phase of its own.
    ///
    /// Not again without such a look, whatever moved: ranks that enter one after the other must not keep the time from counting.
    #[inline]
    pub fn gives_way(&mut self) -> bool {
        let eager = self.eager > 0;
        self.eager = self.eager.saturating_sub(1);
        eager
    }

    /// Looks at the clock and returns how to wait on.
    pub fn pause(&mut self) -> Pause {
        let (pause, _, _) = self.pause_at();
        pause
    }

    /// Returns what [`pause`](Self::pause) returns, the time, and since when nothing has moved.
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
            // Who never spins has nothing to learn from that.
            if self.policy.roomy {
                self.yielded.get_or_insert((now, 0)).1 += 1;
            }
            Pause::Yield
        } else {
            Pause::Sleep
        };
        (pause, now, since)
    }

    /// Takes note of a sleep that was to end within `planned`.
    pub fn slept(&mut self, planned: Duration) {
        self.clock.get_or_insert_with(Clock::start).waited(planned);
    }

    /// Takes note that something moved: the wait begins anew.
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

    /// Ends the wait; returns what was learnt, for the next one.
    #[must_use]
    pub fn finish(mut self) -> Policy {
        self.moved();
        self.policy
    }

    /// Returns how long nothing has moved, as of the last look at the clock.
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

    /// Returns how long a rank that nobody wakes may sleep now: a sixteenth of the time that it has waited, so that it is late by no
    /// more than that, and at most `longest`.
    #[must_use]
    pub fn nap(&self, longest: Duration) -> Duration {
        (self.waited() / 16).min(longest)
    }
}

/// Returns, of a wait that has ended, whether a rank of the job has the same processor: the yields in it were taken up, and not
/// for long.
fn shares(took: Duration, yields: u32) -> bool {
    took < SOON && took >= TAKEN * yields
}

/// Says when something is due again during a wait.
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

    /// Returns whether it is due after `waited`, and counts from there if it is.
    pub fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= self.last + self.interval;
        if due {
            self.last = waited;
        }
        due
    }

    /// Returns how much longer it is not due.
    #[must_use]
    pub fn left(&self, waited: Duration) -> Duration {
        (self.last + self.interval).saturating_sub(waited)
    }
}

#[cfg(test)]
mod tests;
