//! How the language that called into a blocked rank ends the wait.
//!
//! An interpreter keeps signals for itself: while a rank is blocked in a collective, Ctrl-C does
//! not reach the program. Whoever embeds the library installs a hook; a rank that sleeps asks it,
//! and a "yes" ends the call as [`Aborted`](comm_api::FailureKind::Aborted) by this rank, on every
//! rank.

use std::cell::Cell;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How often a rank that sleeps asks the hook.
pub const INTERVAL: Duration = Duration::from_millis(20);

type Hook = Arc<dyn Fn() -> bool + Send + Sync>;

static HOOK: RwLock<Place> = RwLock::new(Place {
    replaced: 0,
    hook: None,
});

/// Where the hook is, and how often it was replaced.
struct Place {
    replaced: u64,
    hook: Option<Hook>,
}

thread_local! {
    /// Which hook this thread asked last, and when.
    static ASKED: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

/// Installs the hook of this process, in place of the one before.
///
/// It is called by whichever thread is blocked in a collective, about every 20 ms and never twice
/// within 10 ms, and returns whether that call should end. A call that a panic of the hook leaves has failed as one that any
/// other panic leaves.
pub fn set_hook(hook: impl Fn() -> bool + Send + Sync + 'static) {
    replace(Some(Arc::new(hook)));
}

/// Removes the hook.
pub fn clear_hook() {
    replace(None);
}

fn replace(hook: Option<Hook>) {
    let mut place = HOOK.write().unwrap_or_else(PoisonError::into_inner);
    place.replaced += 1;
    let before = std::mem::replace(&mut place.hook, hook);
    drop(place);
    // Not dropped under the lock: what it holds may wait for a thread that asks for the hook.
    drop(before);
}

/// Asks the hook whether the call under way should end; `false` without a hook, and as long as this
/// thread has asked it just now: sleeps may be short, and a hook may have to wait for its
/// interpreter.
#[must_use]
pub fn requested() -> bool {
    due_hook().is_some_and(|hook| hook())
}

/// Returns the hook, if there is one to ask. Not called under the lock: it may take long, or panic.
fn due_hook() -> Option<Hook> {
    let place = HOOK.read().unwrap_or_else(PoisonError::into_inner);
    let hook = place.hook.as_ref()?;
    let now = Instant::now();
    let recent = |(asked, when): (u64, Instant)| {
        asked == place.replaced && now.saturating_duration_since(when) < INTERVAL / 2
    };
    if ASKED.get().is_some_and(recent) {
        return None;
    }
    ASKED.set(Some((place.replaced, now)));
    Some(Arc::clone(hook))
}

/// Returns whether a hook is installed, so that no sleep may be longer than [`INTERVAL`].
#[must_use]
pub fn is_watched() -> bool {
    HOOK.read()
        .unwrap_or_else(PoisonError::into_inner)
        .hook
        .is_some()
}
