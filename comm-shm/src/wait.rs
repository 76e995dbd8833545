//! How a rank waits: it spins, then yields, then sleeps at its bell.
//!
//! A wake-up through the kernel costs hundreds of times what a flag costs, so a rank that has a
//! processor to itself spins for some microseconds first. With more ranks than processors the one
//! that is waited for may need this very processor, so there a rank yields at once.
//!
//! # No wake-up is lost
//!
//! The sleeper writes its bell, then looks at the lines again; the publisher writes its line, then
//! looks at the bells; a sequentially consistent fence stands between the two on both sides. So at
//! least one of them sees the other: the sleeper does not go to bed, or the publisher wakes it.

use std::time::{Duration, Instant};

use crate::board::{Bell, Board};
use crate::rule::{Rule, kept};
use crate::sync::{Ordering, fence};

/// How long a rank sleeps before it looks whether the others live.
pub(crate) const NAP: Duration = Duration::from_millis(20);

/// How long a rank spins when that has paid so far: somewhat longer than a wake-up takes.
const LONGEST_SPIN: Duration = Duration::from_micros(60);

/// How long it spins when that has not.
const SHORTEST_SPIN: Duration = Duration::from_micros(1);

/// When a rank that waits begins to say so.
const SLOW: Duration = Duration::from_secs(10);

/// How many times a spinning rank looks before it looks at the clock.
const BURST: u32 = 64;

/// How long a rank waits in which way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Patience {
    /// How many times to look before anything else is looked at.
    pub(crate) eager: u32,
    spin: Duration,
    drowse: Duration,
    pub(crate) timeout: Option<Duration>,
}

impl Patience {
    /// Chooses by the processors this process may use: affinity and control groups count.
    pub(crate) fn new(ranks: usize, timeout: Option<Duration>) -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let roomy = ranks <= processors;
        Self {
            eager: if roomy { BURST } else { 0 },
            spin: if roomy { LONGEST_SPIN } else { Duration::ZERO },
            drowse: Duration::from_millis(1),
            timeout,
        }
    }

    /// Goes to sleep at once and for ever.
    #[cfg(loom)]
    pub(crate) fn model() -> Self {
        Self {
            eager: 0,
            spin: Duration::ZERO,
            drowse: Duration::ZERO,
            timeout: None,
        }
    }
}

/// How long spinning is worth while: strangers on the machine may have left two ranks one
/// processor, where every moment of spinning keeps the other from coming.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Habit {
    spin: Duration,
}

impl Habit {
    pub(crate) fn new(patience: Patience) -> Self {
        Self {
            spin: patience.spin,
        }
    }

    /// Learns from a wait that has ended well, in a way.
    pub(crate) fn learn(&mut self, patience: Patience, last: Pause) {
        self.spin = match last {
            Pause::Spin => (self.spin * 2).min(patience.spin),
            // Never to nothing: a rank that does not try does not notice that the strangers left.
            Pause::Yield => (self.spin / 2).max(SHORTEST_SPIN).min(patience.spin),
            // A rank that comes that late tells nothing about spinning.
            Pause::Sleep => self.spin,
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

/// Keeps the time of one wait.
#[derive(Debug)]
pub(crate) struct Vigil {
    patience: Patience,
    spin: Duration,
    since: Instant,
    elapsed: Duration,
    warned: Duration,
}

impl Vigil {
    pub(crate) fn new(patience: Patience, habit: Habit) -> Self {
        Self {
            patience,
            spin: habit.spin,
            since: Instant::now(),
            elapsed: Duration::ZERO,
            warned: Duration::ZERO,
        }
    }

    /// Looks at the clock and tells how to wait on.
    pub(crate) fn pause(&mut self) -> Pause {
        if cfg!(loom) {
            return Pause::Sleep;
        }
        self.elapsed = self.since.elapsed();
        let (spin, drowse) = (self.spin, self.patience.drowse);
        match self.elapsed {
            elapsed if elapsed < spin => Pause::Spin,
            elapsed if elapsed < spin + drowse => Pause::Yield,
            _ => Pause::Sleep,
        }
    }

    /// Tells whether the timeout has passed.
    pub(crate) fn expired(&self) -> bool {
        self.patience
            .timeout
            .is_some_and(|limit| self.elapsed >= limit)
    }

    /// Tells, once every ten seconds, how long this wait has taken.
    pub(crate) fn slow(&mut self) -> Option<Duration> {
        let due = self.elapsed >= self.warned + SLOW;
        due.then(|| {
            self.warned = self.elapsed;
            self.elapsed
        })
    }

    /// How long to sleep now.
    pub(crate) fn nap(&self) -> Duration {
        let left = self
            .patience
            .timeout
            .map(|limit| limit.saturating_sub(self.elapsed));
        let nap = if PORTABLE {
            // Nobody wakes this sleeper: short at first, for ranks that are nearly there.
            (self.elapsed / 16).clamp(Duration::from_micros(100), Duration::from_millis(2))
        } else {
            NAP
        };
        left.map_or(nap, |left| nap.min(left.max(Duration::from_micros(100))))
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

/// Sleeps until rank `missing` publishes, something happens, or `nap` is over.
///
/// `stay` looks, after the bell was written, whether there is still reason to sleep.
pub(crate) fn sleep<B: Board>(
    board: &B,
    rank: usize,
    missing: usize,
    nap: Duration,
    stay: impl FnOnce() -> bool,
) {
    let bell = board.bell(rank);
    let sleepers = &board.control().sleepers;
    let call = ring_of(missing);
    bell.word.store(call, Ordering::Relaxed);
    sleepers.fetch_add(1, Ordering::Relaxed);
    if kept(Rule::FenceBeforeLook) {
        fence(Ordering::SeqCst);
    }
    if !kept(Rule::LookAgain) || stay() {
        block(bell, call, nap);
    }
    bell.word.store(0, Ordering::Relaxed);
    sleepers.fetch_sub(1, Ordering::Relaxed);
}

/// Wakes the ranks that sleep until `rank` publishes; called right after it did.
#[inline]
pub(crate) fn ring<B: Board>(board: &B, rank: usize) {
    if kept(Rule::FenceBeforeRing) {
        fence(Ordering::SeqCst);
    }
    if board.control().sleepers.load(Ordering::Relaxed) != 0 {
        wake(board, rank, Some(ring_of(rank)));
    }
}

/// Wakes every rank that sleeps: a refusal, a departure or a cause concerns all.
#[cold]
pub(crate) fn ring_all<B: Board>(board: &B, rank: usize) {
    fence(Ordering::SeqCst);
    if board.control().sleepers.load(Ordering::Relaxed) != 0 {
        wake(board, rank, None);
    }
}

#[cold]
fn wake<B: Board>(board: &B, rank: usize, call: Option<u32>) {
    for other in (0..board.size()).filter(|&other| other != rank) {
        let bell = board.bell(other);
        let found = bell.word.load(Ordering::Relaxed);
        let meant = found != 0 && call.is_none_or(|call| call == found);
        // Only what was found is taken down: the sleeper may wait for another rank by now.
        let taken = meant
            && bell
                .word
                .compare_exchange(found, 0, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok();
        if taken {
            unblock(bell);
        }
    }
}

/// What stands on the bell of a rank that waits for `rank`.
fn ring_of(rank: usize) -> u32 {
    // At most 1024 ranks, see `ShmConfig::check`.
    u32::try_from(rank).unwrap_or(u32::MAX - 1) + 1
}

/// Waiting without a wake-up by the kernel.
const PORTABLE: bool = cfg!(any(not(target_os = "linux"), feature = "portable-wait"));

#[cfg(all(target_os = "linux", not(feature = "portable-wait"), not(loom)))]
fn block(bell: &Bell, call: u32, nap: Duration) {
    use rustix::thread::futex;
    let nap = futex::Timespec {
        tv_sec: nap.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: nap.subsec_nanos().into(),
    };
    // Whatever ends it (a wake-up, the time, a signal, a bell rung already), the caller looks again.
    let _ = futex::wait(&bell.word, futex::Flags::empty(), call, Some(&nap));
}

#[cfg(all(target_os = "linux", not(feature = "portable-wait"), not(loom)))]
fn unblock(bell: &Bell) {
    // One rank sleeps at a bell. It cannot fail for a mapped word; if it did, the nap ends anyway.
    let _ = rustix::thread::futex::wake(&bell.word, rustix::thread::futex::Flags::empty(), 1);
}

#[cfg(all(any(not(target_os = "linux"), feature = "portable-wait"), not(loom)))]
fn block(_: &Bell, _: u32, nap: Duration) {
    std::thread::sleep(nap);
}

#[cfg(all(any(not(target_os = "linux"), feature = "portable-wait"), not(loom)))]
fn unblock(_: &Bell) {}

/// A futex as the kernel has it: the word is compared under the lock that a waker takes. There is
/// no timeout, so a lost wake-up is a deadlock, which the model reports.
#[cfg(loom)]
fn block(bell: &Bell, call: u32, _: Duration) {
    let (lock, awake) = &bell.bed;
    let guard = lock.lock().unwrap();
    if bell.word.load(Ordering::SeqCst) == call {
        drop(awake.wait(guard).unwrap());
    }
}

#[cfg(loom)]
fn unblock(bell: &Bell) {
    let (lock, awake) = &bell.bed;
    let _guard = lock.lock().unwrap();
    awake.notify_one();
}
