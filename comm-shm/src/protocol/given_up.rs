//! The ranges that all ranks have given up, as a stack: each says which one was given up before it.
//!
//! Any rank adds to it. Only the leader takes, and always all, so what was on top cannot come back between two looks at it.

use crate::protocol::sync::{AtomicU64, Ordering};

/// Says that there is nothing below: no range begins where the segment does.
pub(crate) const NONE: u64 = 0;

/// Adds the range at `offset`, whose own word is `below`; the caller does not touch the range any more.
pub(crate) fn add(top: &AtomicU64, below: &AtomicU64, offset: u64) {
    let mut found = top.load(Ordering::Relaxed);
    loop {
        below.store(found, Ordering::Relaxed);
        // Release: the leader that takes the range finds what is below it, and its memory returned. Those below were added by such
        // operations, too, which this one continues.
        match top.compare_exchange(found, offset, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => found = other,
        }
    }
}

/// Takes all, and returns the last one that was added, or [`NONE`].
pub(crate) fn take_all(top: &AtomicU64) -> u64 {
    top.swap(NONE, Ordering::Acquire)
}
