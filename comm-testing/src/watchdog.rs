//! Ends a test that hangs: the test runner would wait for it for ever.

use std::cell::RefCell;
use std::io::{self, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

/// How long a test may take that waits for sockets, threads or processes.
const LIMIT: Duration = Duration::from_mins(3);

thread_local! {
    /// What keeps the watchdog of this thread from its work; gone with the thread.
    static GUARD: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
}

/// Gives the test of this thread three minutes from now; then the process is ended, with the name of the test.
///
/// Helpers that open sockets or start processes call it, so that no test has to think of it. It ends with the thread: the test
/// runner has one for each test.
pub fn watchdog() {
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    GUARD.set(Some(watch(LIMIT, move || {
        let line = format!("watchdog: {name} takes longer than {LIMIT:?}\n");
        // Past the test runner, which would swallow it; if it fails, the signal still tells.
        let _ = io::stderr().write_all(line.as_bytes());
        std::process::abort();
    })));
}

/// Runs what takes as long as it takes, as compiling does: until it is over, the watchdog of this thread rests. Then the test has three
/// minutes from there.
pub fn unwatched<R>(run: impl FnOnce() -> R) -> R {
    let watched = GUARD.take().is_some();
    let result = run();
    if watched {
        watchdog();
    }
    result
}

/// Calls `bark` after `limit`, unless what is returned was dropped by then.
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
        // The watchdog from before was called off, not only forgotten.
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
