//! The hook is called while it is installed, shortens sleeps, and may replace itself.
//!
//! A single test, because the hook belongs to the whole process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use comm_kit::clock::sleep_limit;
use comm_kit::interrupt;

/// Asks for the hook when it is dropped.
struct Last(mpsc::Sender<bool>);

impl Drop for Last {
    fn drop(&mut self) {
        let _ = self.0.send(interrupt::is_watched());
    }
}

#[test]
fn a_hook_is_asked_while_it_is_there() {
    comm_testing::watchdog();
    assert!(!interrupt::requested());
    assert_eq!(sleep_limit(None), Duration::from_millis(250));

    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    interrupt::set_hook(move || {
        // The hook is not called under the lock, so it may remove itself.
        interrupt::clear_hook();
        count.fetch_add(1, Ordering::Relaxed);
        true
    });
    assert!(interrupt::is_watched());
    assert_eq!(sleep_limit(None), interrupt::INTERVAL);
    assert!(interrupt::requested());
    assert!(!interrupt::requested());
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    assert!(!interrupt::is_watched());

    // A hook that panics harms the call in which it ran, not the next one.
    interrupt::set_hook(|| panic!("inside the hook"));
    assert!(std::panic::catch_unwind(interrupt::requested).is_err());
    interrupt::set_hook(|| false);
    assert!(!interrupt::requested());
    interrupt::clear_hook();

    // Sleeps may be short, and the hook slow: it is not called in each of them.
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    interrupt::set_hook(move || count.fetch_add(1, Ordering::Relaxed) > usize::MAX / 2);
    let began = Instant::now();
    while began.elapsed() < interrupt::INTERVAL * 5 {
        assert!(!interrupt::requested());
    }
    let most = began.elapsed().as_millis() / 10 + 1;
    let asked = asked.load(Ordering::Relaxed);
    assert!((2..=most).contains(&(asked as u128)), "asked {asked} times");
    interrupt::clear_hook();

    // A value owned by the hook may use the hook when it is dropped: no lock is held then.
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let last = Last(sender);
        interrupt::set_hook(move || {
            let _ = &last;
            false
        });
        interrupt::clear_hook();
    });
    assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok(false));
}
