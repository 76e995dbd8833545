//! Ends a test that hangs: the test runner has no timeout.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// The time limit of a test that waits for sockets, threads or processes.
const LIMIT: Duration = Duration::from_mins(3);

thread_local! {
    /// Suspends the watchdog of this thread; dropped with the thread.
    static GUARD: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Ends the process after three minutes, with the name of this thread's test, unless the test is over by
/// then.
///
/// Helpers that open sockets or start processes call it, so that no test has to. The watchdog ends with the
/// thread: the test runner has one thread per test.
pub fn watchdog() {
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    GUARD.set(Some(watch(LIMIT, move || {
        let line = format!("watchdog: {name} takes longer than {LIMIT:?}\n");
        // Bypasses the test runner, which would swallow the line; if writing fails, the signal is still
        // visible.
        let _ = io::stderr().write_all(line.as_bytes());
        std::process::abort();
    })));
}

/// Runs a task of unknown duration, such as compiling, with the watchdog of this thread suspended. Afterwards
/// the test has three minutes again.
pub fn unwatched<R>(run: impl FnOnce() -> R) -> R {
    let watched = GUARD.take().is_some();
    let result = run();
    if watched {
        watchdog();
    }
    result
}

/// Calls `bark` after `limit`, unless the returned value was dropped by then.
fn watch(limit: Duration, bark: impl FnOnce() + Send + 'static) -> Sender<()> {
    let (guard, dropped) = mpsc::channel();
    thread::spawn(move || {
        if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            bark();
        }
    });
    guard
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn it_barks_at_the_limit_and_not_once_the_test_is_over() {
        let (barked, heard) = mpsc::channel();
        let too_slow = barked.clone();
        let guard = watch(Duration::from_millis(1), move || too_slow.send(1).unwrap());
        assert_eq!(heard.recv_timeout(LONG), Ok(1));
        drop(guard);

        drop(watch(LONG, move || barked.send(2).unwrap()));
        // The other end is dropped without a word.
        let rest = heard.recv_timeout(LONG);
        assert_eq!(rest, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn it_rests_while_something_is_compiled_and_watches_again_then() {
        let is_watched = || GUARD.with_borrow(Option::is_some);
        let (barked, heard) = mpsc::channel();
        let test = thread::spawn(move || {
            assert!(!unwatched(is_watched) && !is_watched());
            GUARD.set(Some(watch(LONG, move || barked.send(()).unwrap())));
            assert!(!unwatched(is_watched));
            is_watched()
        });
        assert!(test.join().unwrap());
        // The previous watchdog was cancelled, not only forgotten.
        assert_eq!(
            heard.recv_timeout(LONG / 2),
            Err(RecvTimeoutError::Disconnected)
        );
    }

    #[test]
    fn it_ends_with_the_thread_of_its_test() {
        let (sender, heard) = mpsc::channel::<()>();
        let test = thread::spawn(move || {
            let guard = watch(LONG, move || sender.send(()).unwrap());
            GUARD.set(Some(guard));
        });
        test.join().unwrap();
        let rest = heard.recv_timeout(LONG / 2);
        assert_eq!(rest, Err(RecvTimeoutError::Disconnected));
    }
}
