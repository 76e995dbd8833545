//! The building blocks of the protocol: atomics, fences and a word to sleep on.
//!
//! All shared state goes through this layer. Models replace the whole file by another one, in which every
//! interleaving is explored and single rules can be broken; no other code of the crate depends on the models.

use std::ops::Deref;
use std::time::Duration;

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Orders what a publisher wrote before its look for sleepers.
///
/// The sleeper writes its bell, then looks at the lines; the publisher writes its line, then looks at the
/// bells. On both sides, a sequentially consistent fence separates the write from the look, so at least one
/// of the two sees what the other wrote. The two fences have separate names, so that a model can break one of
/// them.
pub(crate) use std::sync::atomic::fence as publisher_fence;
/// Orders a sleeper's bell before its second look; the other half of [`publisher_fence`].
pub(crate) use std::sync::atomic::fence as sleeper_fence;

/// Orders the mark that a note is being written before its new text; a separate name, so that a model can
/// break it.
pub(crate) use std::sync::atomic::fence as text_fence;

/// Orders the check for a cause after reading a buffer that another rank lends, see `step/lending.rs`.
pub(crate) use std::sync::atomic::fence as reader_fence;
/// Orders the cause before what the caller writes into a buffer that was lent; the other half of
/// [`reader_fence`].
pub(crate) use std::sync::atomic::fence as leaver_fence;

/// Publishes `value` with release, before every sequentially consistent look that follows.
///
/// The look for sleepers is such a look, so that no [`publisher_fence`] is needed between the two:
/// if it comes before a sleeper's count in the one order of such operations, this exchange comes
/// before that sleeper's fence, and the sleeper sees the line. An exchange costs less than a store
/// and a fence: 0.33 instead of 0.41 us for a barrier of two ranks.
#[inline]
pub(crate) fn publish(word: &AtomicU64, value: u64) {
    word.swap(value, Ordering::SeqCst);
}

/// Checks whether there is still reason to sleep, after the sleeper wrote its bell.
#[inline]
pub(crate) fn second_look(look: impl FnOnce() -> bool) -> bool {
    look()
}

/// Checks whether a finding may be remembered for later steps: there is nothing for them either.
#[inline]
pub(crate) fn lasting(look: impl FnOnce() -> bool) -> bool {
    look()
}

/// Whether the kernel does not wake sleepers, so that they look for themselves.
pub(crate) const POLLING: bool = cfg!(any(not(target_os = "linux"), comm_portable_wait));

/// A word on which a thread sleeps until another wakes it.
#[repr(transparent)]
#[derive(Debug, Default)]
pub(crate) struct Futex(AtomicU32);

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
impl Futex {
    /// Sleeps until another thread wakes this word, at most for `time`; returns at once if the word differs
    /// from `expected`.
    pub(crate) fn sleep(&self, expected: u32, time: Duration) {
        use rustix::thread::futex::{Flags, Timespec, wait};
        let time = Timespec {
            tv_sec: time.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: time.subsec_nanos().into(),
        };
        // Whatever ends the sleep (a wake-up, the time, a signal, another value), the caller looks again.
        let _ = wait(&self.0, Flags::empty(), expected, Some(&time));
    }

    /// Wakes the one thread that sleeps on this word.
    pub(crate) fn wake(&self) {
        use rustix::thread::futex::{Flags, wake};
        // This cannot fail for a mapped word; if it did, the sleeper's time would end anyway.
        let _ = wake(&self.0, Flags::empty(), 1);
    }

    /// Wakes all threads that sleep on this word.
    pub(crate) fn wake_all(&self) {
        use rustix::thread::futex::{Flags, wake};
        let _ = wake(&self.0, Flags::empty(), i32::MAX.cast_unsigned());
    }
}

#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
#[expect(clippy::unused_self, reason = "called as where the kernel wakes")]
impl Futex {
    /// Sleeps for `time`.
    pub(crate) fn sleep(&self, _expected: u32, time: Duration) {
        std::thread::sleep(time);
    }

    /// Does nothing: sleepers look for themselves.
    pub(crate) fn wake(&self) {}

    /// Does nothing: sleepers look for themselves.
    pub(crate) fn wake_all(&self) {}
}
