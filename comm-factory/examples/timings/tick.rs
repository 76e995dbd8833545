//! Lets all ranks start a call at the same moment of the clock that they share.
//!
//! Ranks leave a barrier at different times, and with every library in another order, so a time measured right after it would include a
//! part of the barrier. So each rank waits for the next tick after its barrier, and then for a random time that depends only on rank and
//! call. The programs of the peers do the same with the same numbers, see `xtask/peers/measure.h`.

use std::hint::spin_loop;
use std::thread::yield_now;

use super::clock::now;

/// The nanoseconds between two ticks, per rank: ranks that share processors leave a barrier one after another.
const TICK: u64 = 25_000;
/// Before a tick ranks yield until this many nanoseconds are left, then spin.
const SPIN: u64 = 5_000;
/// The random time is below this many nanoseconds.
const JITTER: u64 = 1_000;

/// Waits for the next tick and the jitter of this rank's call number `call`; returns the number of the tick. Ranks with different
/// ticks did not start together.
pub(crate) fn wait(rank: usize, size: usize, call: usize) -> u64 {
    let period = TICK * size as u64;
    let tick = (now() + SPIN) / period + 1;
    let start = tick * period + jitter(rank as u64, call as u64);
    loop {
        match start.saturating_sub(now()) {
            0 => return tick,
            left if left > SPIN => yield_now(),
            _ => spin_loop(),
        }
    }
}

/// Mixes rank and call (the finaliser of `SplitMix64`).
fn jitter(rank: u64, call: u64) -> u64 {
    let mut bits = (rank << 32) + call + 1;
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (bits ^ (bits >> 31)) % JITTER
}
