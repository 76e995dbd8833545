//! Lets the calling language interrupt a blocked rank.
//!
//! An interpreter handles signals itself: while a rank is blocked in a collective, Ctrl-C does not reach the
//! program. An embedder of the library therefore installs a hook. A sleeping rank calls it, and a "yes" ends
//! the call on every rank as [`Aborted`](comm_api::FailureKind::Aborted) by this rank.

use std::cell::Cell;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

/// How often a sleeping rank calls the hook.
pub const INTERVAL: Duration = Duration::from_millis(20);

type Hook = Arc<dyn Fn() -> bool + Send + Sync>;

static HOOK: RwLock<Installed> = RwLock::new(Installed {
    replaced: 0,
    hook: None,
});

/// The hook, and how often it was replaced.
struct Installed {
    replaced: u64,
    hook: Option<Hook>,
}

thread_local! {
    /// Which hook this thread called last, and when.
    static ASKED: Cell<Option<(u64, Instant)>> = const { Cell::new(None) };
}

/// Installs the hook of this process, replacing the previous one.
///
/// Whichever thread is blocked in a collective calls the hook, about every 20 ms and never twice within 10
/// ms; the hook returns whether that call should end. If the hook panics, the call fails as after any other
/// panic.
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
    // Dropped outside the lock: the old hook may own something that waits for a thread that needs the lock.
    drop(before);
}

/// Calls the hook and returns whether the current call should end. Returns `false` without a hook, and if
/// this thread called the hook a moment ago: sleeps may be short, and a hook may have to wait for its
/// interpreter.
#[must_use]
pub fn requested() -> bool {
    due_hook().is_some_and(|hook| hook())
}

/// Returns the hook, if it is due. The hook is not called under the lock, because it may be slow or panic.
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

/// Returns whether a hook is installed, so that no sleep may exceed [`INTERVAL`].
#[must_use]
pub fn is_watched() -> bool {
    HOOK.read()
        .unwrap_or_else(PoisonError::into_inner)
        .hook
        .is_some()
}
