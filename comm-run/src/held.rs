//! How much of lines that have not ended is held, all streams of a job together.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Above this, streams that hold more than their share pass on what they have, although its line goes on.
pub(crate) const HELD_BYTES: usize = 64 << 20;

/// What one stream holds of the common room.
///
/// The streams that hold less than their share can double what is held at most, whatever the ranks write.
#[derive(Debug)]
pub(crate) struct Held {
    // Relaxed: a number that nobody derives access to memory from.
    total: Arc<AtomicUsize>,
    share: usize,
    own: usize,
}

impl Held {
    /// Creates the room for so many streams; each takes one.
    pub(crate) fn for_streams(streams: usize) -> impl FnMut() -> Self {
        let total = Arc::new(AtomicUsize::new(0));
        let share = HELD_BYTES / streams.max(1);
        move || Self {
            total: Arc::clone(&total),
            share,
            own: 0,
        }
    }

    /// Notes how much this stream holds now.
    pub(crate) fn set(&mut self, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(self.own, Ordering::Relaxed);
        self.own = bytes;
    }

    /// Returns whether this stream should pass on what it holds.
    pub(crate) fn is_too_much(&self) -> bool {
        self.own > self.share && self.total.load(Ordering::Relaxed) > HELD_BYTES
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{HELD_BYTES, Held};

    #[test]
    fn one_stream_may_hold_everything_and_many_their_share() {
        let mut stream = Held::for_streams(4);
        let (mut one, mut two) = (stream(), stream());
        one.set(HELD_BYTES);
        assert!(!one.is_too_much());
        two.set(1);
        // The one with little goes on.
        assert!(one.is_too_much() && !two.is_too_much());
        one.set(HELD_BYTES / 4);
        two.set(HELD_BYTES);
        assert!(two.is_too_much() && !one.is_too_much());
        drop(one);
        assert!(!two.is_too_much());
    }
}
