//! A clock that all processes of a machine share.

use rustix::time::{ClockId, clock_gettime};

/// Returns the nanoseconds since a moment that is the same for every process of this machine.
#[inline]
pub(crate) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // Neither is negative on this clock.
    let [seconds, nanos] = [now.tv_sec, now.tv_nsec].map(|part| u64::try_from(part).unwrap_or(0));
    seconds * 1_000_000_000 + nanos
}
