//! The ranges that all ranks have released, as a stack: each names the one released before it.
//!
//! Any rank pushes. Only the leader pops, and always everything, so the same top cannot return between two
//! looks at it.

use crate::protocol::sync::{AtomicU64, Ordering};

/// Marks the bottom of the stack: no range begins where the segment does.
pub(crate) const NONE: u64 = 0;

/// Pushes the range at `offset`, whose own word is `below`; the caller must not access the range afterwards.
pub(crate) fn add(top: &AtomicU64, below: &AtomicU64, offset: u64) {
    let mut found = top.load(Ordering::Relaxed);
    loop {
        below.store(found, Ordering::Relaxed);
        // Release: the leader that takes the range sees what is below it, and that its memory was returned.
        // The ranges below were pushed by such operations too, which this one continues.
        match top.compare_exchange(found, offset, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(other) => found = other,
        }
    }
}

/// Takes all ranges, and returns the one pushed last, or [`NONE`].
pub(crate) fn take_all(top: &AtomicU64) -> u64 {
    top.swap(NONE, Ordering::Acquire)
}
