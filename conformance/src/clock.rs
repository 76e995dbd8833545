//! One clock for all processes of a machine, and a measure of how busy the machine is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Returns the time since the machine started, the same in every process.
pub(crate) fn now() -> Duration {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(seconds, nanos)
}

/// Measures how late a thread of this process is woken, and how long the querying thread was runnable without
/// a processor: the delay that the machine, not the backend under test, adds to a time bound.
///
/// The delay is capped, and a thread that runs all the time is not delayed: a backend that spins while it
/// waits uses up the processors itself, and has no excuse.
#[derive(Debug)]
pub(crate) struct Metronome {
    began: Instant,
    /// How long the thread that started this had run and had waited for a processor by then.
    times: Times,
    worst: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(2);

/// The maximum by which a bound may be exceeded, however busy the machine is.
pub(crate) const MOST_SLACK: Duration = Duration::from_millis(500);

impl Metronome {
    /// Starts ticking; the starting thread is the one that queries.
    pub(crate) fn start() -> Self {
        let (worst, stop) = (
            Arc::new(AtomicU64::new(0)),
            Arc::new(AtomicBool::new(false)),
        );
        let (late, done) = (Arc::clone(&worst), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let start = Instant::now();
                thread::sleep(TICK);
                let over = start.elapsed().saturating_sub(TICK);
                late.fetch_max(
                    u64::try_from(over.as_micros()).unwrap_or(u64::MAX),
                    Ordering::Relaxed,
                );
            }
        });
        Self {
            began: Instant::now(),
            times: Times::of_this_thread(),
            worst,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns by how much a bound may be exceeded.
    pub(crate) fn slack(&self) -> Duration {
        let late = Duration::from_micros(self.worst.load(Ordering::Relaxed));
        let now = Times::of_this_thread();
        let times = Times {
            ran: now.ran.saturating_sub(self.times.ran),
            queued: now.queued.saturating_sub(self.times.queued),
        };
        excuse(late, times, self.began.elapsed())
    }
}

/// Returns by how much a bound may be exceeded after `elapsed`, in which a thread was woken `late` at worst.
/// That is four times `late`, since a report passes through a few wake-ups on both sides; or twice the time
/// that the querying thread was kept waiting for a processor, since the reporting rank was, too. Zero if the
/// thread ran for most of the time.
fn excuse(late: Duration, times: Times, elapsed: Duration) -> Duration {
    if 2 * times.ran > elapsed {
        return Duration::ZERO;
    }
    (4 * late).max(2 * times.queued).min(MOST_SLACK)
}

/// How long a thread has run, and how long it was runnable without running, where the system counts that.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    ran: Duration,
    queued: Duration,
}

impl Times {
    fn of_this_thread() -> Self {
        let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let mut nanos = counts
            .split_ascii_whitespace()
            .map(|nanos| Duration::from_nanos(nanos.parse().unwrap_or(0)));
        let mut next = || nanos.next().unwrap_or_default();
        Self {
            ran: next(),
            queued: next(),
        }
    }
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The thread holds nothing and only sleeps: a panic in it is impossible, and harmless here.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn slack_is_what_was_measured_and_no_more_than_half_a_second() {
        let waited = |queued| Times {
            ran: ms(1),
            queued: ms(queued),
        };
        assert_eq!(excuse(ms(3), waited(0), ms(100)), ms(12));
        assert_eq!(excuse(ms(3), waited(20), ms(100)), ms(40));
        assert_eq!(excuse(ms(3), waited(20_000), ms(100)), ms(500));
        assert_eq!(excuse(ms(10_000), waited(0), ms(100)), ms(500));
    }

    #[test]
    fn who_spins_has_no_excuse() {
        // The run time of a thread appears at the next tick of the system.
        let look = Instant::now();
        while Times::of_this_thread().ran.is_zero() {
            if look.elapsed() > Duration::from_secs(10) {
                return comm_testing::not_run("the system does not count how long threads run");
            }
        }
        let metronome = Metronome::start();
        let began = Instant::now();
        let start = Times::of_this_thread().ran;
        let ran = || Times::of_this_thread().ran.saturating_sub(start);
        // Until the thread has run for most of the time, however busy the machine is.
        while ran() < ms(50) || 2 * ran() <= began.elapsed() + ms(5) {
            assert!(began.elapsed() < Duration::from_mins(1), "never ran much");
            std::hint::spin_loop();
        }
        assert_eq!(metronome.slack(), Duration::ZERO);
    }
}
