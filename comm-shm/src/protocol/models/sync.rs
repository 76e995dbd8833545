//! The layer `sync` of the models: loom explores it, and one rule at a time can be broken.

use std::ops::Deref;
use std::sync::PoisonError;
use std::thread::panicking;
use std::time::Duration;

use loom::sync::{Condvar, Mutex};

pub(crate) use loom::sync::atomic::{Ordering, fence};

/// A rule of the protocol that a model can break, to show that the model would notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A sleeper's bell is ordered before its second look.
    FenceBeforeLook,
    /// A line is ordered before its rank looks for sleepers.
    FenceBeforeRing,
    /// A sleeper looks again after it wrote its bell.
    LookAgain,
    /// A look is remembered only if it found nothing for later steps.
    Lasting,
    /// A line is published with release (I1, I2).
    Release,
    /// All ranks are seen at the last step before the next one is written (I3).
    Presence,
    /// A rank has a line per parity.
    TwoLines,
    /// The mark that a note is being written is ordered before its new text.
    FenceBeforeText,
    /// When two ranks write one word, such as a cause, the second finds what the first wrote.
    CompareExchange,
    /// A buffer is read before the look for a cause.
    FenceAfterRead,
    /// The cause is ordered before what is written into a buffer that was lent.
    FenceBeforeLeaving,
}

static BROKEN: std::sync::Mutex<Option<Rule>> = std::sync::Mutex::new(None);

/// Breaks one rule, or none, for all models of this process, until the next call.
pub(crate) fn break_rule(rule: Option<Rule>) {
    *BROKEN.lock().unwrap_or_else(PoisonError::into_inner) = rule;
}

pub(crate) fn broken(rule: Rule) -> bool {
    *BROKEN.lock().unwrap_or_else(PoisonError::into_inner) == Some(rule)
}

pub(crate) fn sleeper_fence(ordering: Ordering) {
    if !broken(Rule::FenceBeforeLook) {
        fence(ordering);
    }
}

pub(crate) fn second_look(look: impl FnOnce() -> bool) -> bool {
    broken(Rule::LookAgain) || look()
}

pub(crate) fn lasting(look: impl FnOnce() -> bool) -> bool {
    broken(Rule::Lasting) || look()
}

pub(crate) fn publisher_fence(ordering: Ordering) {
    if !broken(Rule::FenceBeforeRing) && !panicking() {
        fence(ordering);
    }
}

pub(crate) fn text_fence(ordering: Ordering) {
    if !broken(Rule::FenceBeforeText) {
        fence(ordering);
    }
}

pub(crate) fn reader_fence(ordering: Ordering) {
    if !broken(Rule::FenceAfterRead) {
        fence(ordering);
    }
}

pub(crate) fn leaver_fence(ordering: Ordering) {
    if !broken(Rule::FenceBeforeLeaving) {
        fence(ordering);
    }
}

/// Publishes with a store and a fence: loom treats a sequentially consistent access as weaker than it is, but
/// explores fences.
pub(crate) fn publish(word: &AtomicU64, value: u64) {
    word.store(value, Ordering::Release);
    publisher_fence(Ordering::SeqCst);
}

/// Wraps loom's atomics. A failing model unwinds outside of loom, where an access would abort: by then no
/// rank is left to see it.
macro_rules! atomics {
    ($($name:ident of $int:ident),+) => {$(
        #[derive(Debug, Default)]
        pub(crate) struct $name(loom::sync::atomic::$name);

        impl $name {
            pub(crate) fn load(&self, ordering: Ordering) -> $int {
                if panicking() {
                    return 0;
                }
                self.0.load(ordering)
            }

            pub(crate) fn store(&self, value: $int, ordering: Ordering) {
                if panicking() {
                    return;
                }
                let relaxed = broken(Rule::Release);
                self.0.store(value, if relaxed { Ordering::Relaxed } else { ordering });
            }

            pub(crate) fn fetch_add(&self, value: $int, ordering: Ordering) -> $int {
                if panicking() {
                    return 0;
                }
                self.0.fetch_add(value, ordering)
            }

            pub(crate) fn fetch_sub(&self, value: $int, ordering: Ordering) -> $int {
                if panicking() {
                    return 0;
                }
                self.0.fetch_sub(value, ordering)
            }

            pub(crate) fn swap(&self, value: $int, ordering: Ordering) -> $int {
                if panicking() {
                    return 0;
                }
                self.0.swap(value, ordering)
            }

            pub(crate) fn compare_exchange(
                &self,
                current: $int,
                new: $int,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$int, $int> {
                let success = if broken(Rule::Release) { Ordering::Relaxed } else { success };
                if !broken(Rule::CompareExchange) {
                    return self.0.compare_exchange(current, new, success, failure);
                }
                let found = self.0.load(failure);
                if found != current {
                    return Err(found);
                }
                self.0.store(new, success);
                Ok(found)
            }
        }
    )+};
}

atomics!(AtomicU32 of u32, AtomicU64 of u64);

pub(crate) const POLLING: bool = false;

/// A futex like the kernel's: the word is compared under the lock that a waker takes. It has no timeout, so a
/// lost wake-up is a deadlock, which loom reports.
#[derive(Debug, Default)]
pub(crate) struct Futex {
    word: AtomicU32,
    lock: Mutex<()>,
    woken: Condvar,
}

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.word
    }
}

impl Futex {
    pub(crate) fn sleep(&self, expected: u32, _: Duration) {
        let guard = self.lock.lock().unwrap();
        if self.word.load(Ordering::SeqCst) == expected {
            drop(self.woken.wait(guard).unwrap());
        }
    }

    pub(crate) fn wake(&self) {
        let _guard = self.lock.lock().unwrap();
        self.woken.notify_one();
    }
}
