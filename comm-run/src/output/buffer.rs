//! The memory for what has been read: one place to read into, shared by all streams of a job, and a limit on what they hold of lines
//! that have not ended.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::ready;

use tokio::io::{AsyncRead, ReadBuf};

/// As much as a pipe holds.
const READ_BYTES: usize = 64 << 10;

/// Above this, streams that hold more than their share pass on what they have, although its line goes on.
pub(super) const UNFINISHED_BYTES: usize = 64 << 20;

thread_local! {
    /// A stream that is silent holds no memory this way, and what is kept of a read is as large as what was read.
    ///
    /// Used within one poll only, so that no two streams meet in it.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Appends what there is to `buffer`, waits for something if there is nothing, and returns how much it is; 0 at the end.
pub(super) async fn read_into(
    reader: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<usize> {
    poll_fn(|context| {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut *reader).poll_read(context, &mut read))?;
            buffer.extend_from_slice(read.filled());
            Ok(read.filled().len()).into()
        })
    })
    .await
}

/// What one stream holds of the common room.
///
/// The streams that hold less than their share can double what is held at most, whatever the ranks write.
#[derive(Debug)]
pub(crate) struct Quota {
    // Relaxed: a number that nobody derives access to memory from.
    total: Arc<AtomicUsize>,
    share: usize,
    own: usize,
}

impl Quota {
    /// Creates the room for so many streams; each takes one.
    pub(crate) fn for_streams(streams: usize) -> impl FnMut() -> Self {
        let total = Arc::new(AtomicUsize::new(0));
        let share = UNFINISHED_BYTES / streams.max(1);
        move || Self {
            total: Arc::clone(&total),
            share,
            own: 0,
        }
    }

    /// Notes how much this stream holds now.
    pub(super) fn set(&mut self, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(self.own, Ordering::Relaxed);
        self.own = bytes;
    }

    /// Returns whether this stream should pass on what it holds.
    pub(super) fn is_too_much(&self) -> bool {
        self.own > self.share && self.total.load(Ordering::Relaxed) > UNFINISHED_BYTES
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::{Quota, UNFINISHED_BYTES};

    #[test]
    fn one_stream_may_hold_everything_and_many_their_share() {
        let mut stream = Quota::for_streams(4);
        let (mut one, mut two) = (stream(), stream());
        one.set(UNFINISHED_BYTES);
        assert!(!one.is_too_much());
        two.set(1);
        // The one with little goes on.
        assert!(one.is_too_much() && !two.is_too_much());
        one.set(UNFINISHED_BYTES / 4);
        two.set(UNFINISHED_BYTES);
        assert!(two.is_too_much() && !one.is_too_much());
        drop(one);
        assert!(!two.is_too_much());
    }
}
