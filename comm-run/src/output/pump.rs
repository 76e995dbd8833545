//! From a rank's pipe to whole lines: reads a stream and passes it on in batches that end at the end of a line.
//!
//! The reader only looks for newlines, so text in any encoding passes untouched,
//! also when a character arrives in two reads. Lines wait in queues of bounded size for the
//! threads that write. If one of these is slow, the readers stop reading, the pipe fills, and the
//! rank waits, as it would on a terminal. Nothing is dropped.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::ready;
use std::time::Duration;

use memchr::{memchr, memrchr};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, timeout, timeout_at};

use crate::output::delivery::Outlet;
use crate::output::{LineEnd, Stream};
use crate::verdict::tail::Tail;

/// A longer line is passed on in pieces, so that a rank that never ends its line cannot use up the
/// memory. The limit for all ranks together is little more, see [`Quota`].
pub(crate) const LINE_LIMIT: usize = 64 << 20;

/// The capacity of a pipe.
const READ_BYTES: usize = 64 << 10;

/// Above this, streams that hold more than their share pass on the beginnings of unfinished lines.
const UNFINISHED_BYTES: usize = 64 << 20;

/// When a rank and its group are gone, all they wrote is in the pipe: at most its capacity.
/// Only a process that left the group can write more, and the job does not wait for it.
const LAST_BYTES: usize = 1 << 20;
const LAST_WAIT: Duration = Duration::from_millis(200);

/// Iterates over the lines of a batch, without their newlines. An empty batch ends a line that was already passed on in
/// pieces.
pub(super) fn lines(bytes: &[u8], end: LineEnd) -> impl Iterator<Item = (&[u8], LineEnd)> {
    let mut rest = Some(bytes);
    std::iter::from_fn(move || {
        let bytes = rest.take()?;
        match memchr(b'\n', bytes) {
            Some(newline) => {
                rest = Some(&bytes[newline + 1..]).filter(|rest| !rest.is_empty());
                Some((&bytes[..newline], LineEnd::Newline))
            }
            None => Some((bytes, end)),
        }
    })
}

/// One stream of one rank on its way to the writer.
#[derive(Debug)]
pub(crate) struct Pump {
    pub(crate) rank: usize,
    pub(crate) stream: Stream,
    pub(crate) outlet: Outlet,
    pub(crate) tail: Arc<Mutex<Tail>>,
    /// Becomes true when the rank and its group are gone.
    pub(crate) leaving: watch::Receiver<bool>,
    pub(crate) limit: usize,
    pub(crate) quota: Quota,
    /// How long a line may stay unfinished before its beginning is passed on; `None` for no limit.
    pub(crate) patience: Option<Duration>,
    /// Whether the next piece may continue the line of the last one.
    pub(crate) open: bool,
}

impl Pump {
    /// Reads to the end of the stream, or until the rank is gone and all its output is read.
    ///
    /// # Errors
    ///
    /// Returns the reader's error, after passing on everything before it.
    pub(crate) async fn run(mut self, mut reader: impl AsyncRead + Unpin) -> io::Result<()> {
        let mut buffer = Vec::new();
        let mut last = None;
        // When the rest of the buffer is passed on, although its line has not ended.
        let mut due = None;
        let result = loop {
            let before = buffer.len();
            let read = self.read(&mut reader, &mut buffer, &mut last);
            let Some(read) = before_due(due, read).await else {
                self.pass(std::mem::take(&mut buffer), LineEnd::Open).await;
                due = None;
                continue;
            };
            match read {
                Ok(true) => {
                    let passed = self.pass_lines(&mut buffer, before).await;
                    due = due.filter(|_| !passed).or_else(|| self.due());
                    due = due.filter(|_| !buffer.is_empty());
                }
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        if !buffer.is_empty() || self.open {
            self.pass(buffer, LineEnd::Missing).await;
        }
        result
    }

    fn due(&self) -> Option<Instant> {
        Instant::now().checked_add(self.patience?)
    }

    /// Reads some bytes; returns false at the end. `last` limits what is still read once the rank is gone.
    async fn read(
        &mut self,
        reader: &mut (impl AsyncRead + Unpin),
        buffer: &mut Vec<u8>,
        last: &mut Option<(usize, Duration)>,
    ) -> io::Result<bool> {
        if last.is_none() {
            tokio::select! {
                // The flag first: a stream that never pauses must not hide that its rank is gone.
                biased;
                _ = self.leaving.wait_for(|leaving| *leaving) => {}
                read = read_into(reader, buffer) => return Ok(read? > 0),
            }
        }
        let (bytes, wait) = last.get_or_insert((LAST_BYTES, LAST_WAIT));
        if *bytes == 0 {
            return Ok(false);
        }
        let since = Instant::now();
        let Ok(read) = timeout(*wait, read_into(reader, buffer)).await else {
            return Ok(false);
        };
        let read = read?;
        *bytes = bytes.saturating_sub(read);
        *wait = wait.saturating_sub(since.elapsed());
        Ok(read > 0)
    }

    /// Passes on the whole lines in `buffer`, of which the part from `searched` on is new; the rest
    /// of a line stays. Returns whether there were any.
    async fn pass_lines(&mut self, buffer: &mut Vec<u8>, searched: usize) -> bool {
        let newline = memrchr(b'\n', &buffer[searched..]);
        if let Some(newline) = newline {
            let rest = buffer.split_off(searched + newline + 1);
            self.pass(std::mem::replace(buffer, rest), LineEnd::Newline)
                .await;
        }
        while buffer.len() >= self.limit {
            let rest = buffer.split_off(self.limit);
            self.pass(std::mem::replace(buffer, rest), LineEnd::Limit)
                .await;
        }
        self.quota.set(buffer.len());
        if self.quota.is_too_much() {
            self.pass(std::mem::take(buffer), LineEnd::Limit).await;
        }
        newline.is_some()
    }

    async fn pass(&mut self, bytes: Vec<u8>, end: LineEnd) {
        {
            let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.push(self.stream, self.open, &bytes);
        }
        self.open = matches!(end, LineEnd::Open | LineEnd::Limit);
        self.outlet.send(self.rank, self.stream, bytes, end).await;
        // Only now: until the bytes are in the queue, this stream holds them.
        self.quota.set(0);
    }
}

/// Waits for `read`, but not beyond the `due` time, if there is one.
async fn before_due<T>(due: Option<Instant>, read: impl Future<Output = T>) -> Option<T> {
    match due {
        None => Some(read.await),
        Some(due) => timeout_at(due, read).await.ok(),
    }
}

thread_local! {
    /// Shared by all streams, so that a silent stream holds no memory and a buffer is only as large as the bytes read.
    ///
    /// Used within one poll only, so no two streams use it at once.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; READ_BYTES].into_boxed_slice());
}

/// Appends the available bytes to `buffer`, waits if there are none, and returns their number; 0 at the end.
async fn read_into(
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

/// One stream's part of the memory that all streams share.
///
/// Streams below their share can at most double the total, whatever the ranks write.
#[derive(Debug)]
pub(crate) struct Quota {
    // Relaxed: only a number, no access to other memory depends on it.
    total: Arc<AtomicUsize>,
    share: usize,
    own: usize,
}

impl Quota {
    /// Returns a function that creates the quota of one stream; the given number of streams share the memory.
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
    fn set(&mut self, bytes: usize) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_sub(self.own, Ordering::Relaxed);
        self.own = bytes;
    }

    /// Returns whether this stream should pass on what it holds.
    fn is_too_much(&self) -> bool {
        self.own > self.share && self.total.load(Ordering::Relaxed) > UNFINISHED_BYTES
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests;
