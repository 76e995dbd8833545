//! One clock for all processes of a machine, and a measure of how late the machine runs.

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

/// Measures how late a thread of this process is woken, and how long the thread that asks was ready
/// to run and did not: what the machine, not the backend under test, adds to a time bound.
#[derive(Debug)]
pub(crate) struct Metronome {
    /// How long the thread that started this had waited for a processor by then.
    queued: Duration,
    worst: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The time between two ticks.
const TICK: Duration = Duration::from_millis(2);

impl Metronome {
    /// Starts ticking; the thread that starts it is the one that asks.
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
            queued: queued(),
            worst,
            stop,
            thread: Some(thread),
        }
    }

    /// Returns what a bound may be exceeded by: four times the worst lateness so far, since a report
    /// passes through a few wake-ups, on both sides; or twice the time this thread was kept waiting
    /// for a processor, since the rank that reports was, too.
    pub(crate) fn slack(&self) -> Duration {
        let late = 4 * Duration::from_micros(self.worst.load(Ordering::Relaxed));
        late.max(2 * queued().saturating_sub(self.queued))
    }
}

/// Returns how long this thread has been ready to run without running, where the system counts that.
fn queued() -> Duration {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = counts.split_ascii_whitespace().nth(1);
    Duration::from_nanos(nanos.and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

impl Drop for Metronome {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // It holds nothing and only sleeps: a panic in it is impossible, and harmless here.
            let _ = thread.join();
        }
    }
}
