//! How long a thread was runnable without a processor.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// For how long a thread has waited for a processor since it started, where the system counts it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Queued {
    pub(super) time: Option<Duration>,
    /// When the system was queried.
    pub(super) at: Instant,
}

impl Queued {
    /// Returns the cached value of this thread if it is from `recent` or later, else queries the system. A
    /// query takes three system calls, and a thread may begin a thousand waits per second.
    pub(super) fn of_this_thread(recent: Instant) -> Self {
        thread_local! {
            static LAST: Cell<Option<Queued>> = const { Cell::new(None) };
        }
        LAST.with(|last| {
            let known = last.get().filter(|last| last.at >= recent);
            known.unwrap_or_else(|| {
                let asked = Self {
                    time: ask(),
                    at: Instant::now(),
                };
                last.set(Some(asked));
                asked
            })
        })
    }
}

/// Queries the system. A thread that sleeps, is stopped or is frozen does not wait for a processor.
#[cfg(target_os = "linux")]
fn ask() -> Option<Duration> {
    use std::io::Read;

    // Three numbers of at most twenty digits each.
    let mut bytes = [0; 64];
    let mut file = std::fs::File::open("/proc/thread-self/schedstat").ok()?;
    let len = file.read(&mut bytes).ok()?;
    parse(bytes.get(..len)?)
}

#[cfg(not(target_os = "linux"))]
fn ask() -> Option<Duration> {
    None
}

/// Parses the nanoseconds that a thread ran, those that it waited, and how often it ran.
#[cfg(any(target_os = "linux", test))]
fn parse(counts: &[u8]) -> Option<Duration> {
    let mut counts = std::str::from_utf8(counts).ok()?.split_ascii_whitespace();
    let ran: u64 = counts.next()?.parse().ok()?;
    let waited = counts.next()?.parse().ok()?;
    // A system that does not count reports zeros, and a thread that asks has run at least once.
    (ran > 0).then_some(Duration::from_nanos(waited))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_asks_again_when_what_it_knows_is_old() {
        let first = Queued::of_this_thread(Instant::now());
        let known = Queued::of_this_thread(first.at);
        assert_eq!((known.at, known.time), (first.at, first.time));
        let asked = Queued::of_this_thread(Instant::now());
        assert!(asked.at > first.at);
        let other = std::thread::spawn(move || Queued::of_this_thread(first.at).at);
        assert!(other.join().expect("no panic") > asked.at);
    }

    #[test]
    fn the_second_number_is_the_time_for_which_a_thread_waited() {
        let queued = parse(b"812345678 1500000000 42\n");
        assert_eq!(queued, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn a_system_that_does_not_count_is_told_from_a_thread_that_never_waited() {
        assert_eq!(parse(b"0 0 0\n"), None);
        assert_eq!(parse(b"7 0 1\n"), Some(Duration::ZERO));
        for text in ["", "7", "7 many 1", "\u{e9}"] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
