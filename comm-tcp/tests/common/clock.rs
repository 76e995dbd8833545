//! The time, the same for all processes of a machine.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Returns the time in milliseconds.
pub(crate) fn millis() -> u128 {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::try_from(now).unwrap().as_millis()
}
