//! The log of the watch, written by a thread of its own: a log that blocks must not keep the watch
//! from its work, since every rank waits for what it says.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// How many lines may wait for a log that blocks; more are dropped.
const WAITING: usize = 16;

/// How long the end of the watch waits for its last lines.
const LAST_LINES: Duration = Duration::from_millis(200);

/// Writes lines without ever waiting for the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    writer: Option<Writer>,
}

#[derive(Debug)]
struct Writer {
    lines: SyncSender<WriteLine>,
    /// Disconnected when the thread has ended.
    ended: Receiver<()>,
}

type WriteLine = Box<dyn FnOnce() + Send>;

impl Log {
    /// Lets the thread run `line`, which writes to the log. The first line starts the thread: a job in
    /// which nothing happens has none.
    pub(super) fn write(&mut self, line: impl FnOnce() + Send + 'static) {
        if self.writer.is_none() {
            self.writer = Writer::start();
        }
        if let Some(writer) = &self.writer {
            // Dropped if the log has blocked for so many lines.
            let _ = writer.lines.try_send(Box::new(line));
        }
    }
}

impl Writer {
    /// Starts the thread; without one nothing is logged, and nothing else goes wrong.
    fn start() -> Option<Self> {
        let (lines, waiting) = sync_channel::<WriteLine>(WAITING);
        let (end, ended) = sync_channel(0);
        let write = move || {
            let _end: SyncSender<()> = end;
            for line in waiting {
                line();
            }
        };
        let thread = std::thread::Builder::new().name("comm-tcp log".to_owned());
        thread.spawn(write).ok()?;
        Some(Self { lines, ended })
    }
}

impl Drop for Log {
    /// Waits until the lines are written, for a moment: the log may never take them.
    fn drop(&mut self) {
        if let Some(Writer { lines, ended }) = self.writer.take() {
            drop(lines);
            // Nothing is ever sent: the end of the thread ends this, or the time.
            let _ = ended.recv_timeout(LAST_LINES);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Instant;

    use super::*;

    #[test]
    fn lines_are_written_in_order_before_the_log_is_gone() {
        let written = Arc::new(Mutex::new(Vec::new()));
        let mut log = Log::default();
        for line in 0..10 {
            let written = Arc::clone(&written);
            log.write(move || written.lock().unwrap().push(line));
        }
        drop(log);
        assert_eq!(*written.lock().unwrap(), (0..10).collect::<Vec<_>>());
    }

    #[test]
    fn a_log_that_blocks_keeps_nobody() {
        let began = Instant::now();
        let (free, blocked) = sync_channel::<()>(0);
        let mut log = Log::default();
        log.write(move || assert!(blocked.recv().is_err(), "nothing is sent"));
        for _ in 0..10 * WAITING {
            log.write(|| {});
        }
        drop(log);
        let took = began.elapsed();
        assert!(took < LAST_LINES * 10, "waited for {took:?}");
        drop(free);
    }
}
