//! Detects idle processors.

use std::time::Duration;
use std::{fs, thread};

/// How long to measure.
const LOOK: Duration = Duration::from_secs(2);
/// The share of the time of all processors that must be idle.
const FREE: f64 = 0.2;

/// Waits until processors are idle, and returns true. Returns false when `done`, or if the system does not report idle times.
pub(super) fn wait(done: impl Fn() -> bool) -> bool {
    let mut before = Times::now();
    while !done() {
        thread::sleep(LOOK);
        let now = Times::now();
        match (before, now) {
            (Some(before), Some(now)) if now.idle_since(before) > FREE => return !done(),
            (_, None) => return false,
            _ => before = now,
        }
    }
    false
}

/// The times of all processors since the system started, in clock ticks.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Times {
    idle: f64,
    all: f64,
}

impl Times {
    fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Parses the first line: user, nice, system, idle, waiting for a disk, interrupts, and stolen time.
    fn parse(stat: &str) -> Option<Self> {
        let numbers = stat.lines().next()?.strip_prefix("cpu ")?;
        let numbers: Vec<f64> = numbers
            .split_whitespace()
            .map_while(|number| number.parse().ok())
            .collect();
        Some(Self {
            idle: numbers.get(3)? + numbers.get(4)?,
            // The last two numbers are parts of the first two.
            all: numbers.iter().take(8).sum(),
        })
    }

    /// Returns the share of idle time since the earlier times.
    fn idle_since(self, before: Self) -> f64 {
        let all = self.all - before.all;
        if all > 0.0 {
            (self.idle - before.idle) / all
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_idle_time_is_that_of_the_first_line() {
        let times = |line: &str| Times::parse(line).unwrap();
        let before = times("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
        let now = times("cpu  150 10 80 900 60 0 0 0 70 0\n");
        assert!((now.idle_since(before) - 0.55).abs() < 1e-9, "{now:?}");
        assert_eq!(now.idle_since(now).to_bits(), 0.0_f64.to_bits());
        assert_eq!(Times::parse("intr 1 2 3"), None);
        assert_eq!(Times::parse("cpu  1 2"), None);
    }

    #[test]
    fn nobody_waits_for_what_is_done() {
        assert!(!wait(|| true));
    }
}
