//! Starting a failed job again: when it is worth it, and the sink that outlives one start.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::outcome::{Ending, Outcome};
use crate::sink::{Line, Sink, Stream};

/// A job that fails sooner would fail again.
const TOO_SOON: Duration = Duration::from_secs(1);
/// Wrong usage, and what a shell returns for a program that it cannot execute or find: the next start would end the same way.
const STARTED_WRONGLY: [i32; 3] = [2, 126, 127];

/// Returns whether a job that ended like this should be started again.
pub(crate) fn is_worth_it(outcome: &Outcome) -> bool {
    let failed = matches!(outcome.ending, Ending::RankFailed(_));
    let unwanted = outcome.timed_out || outcome.stopped.is_some();
    let first = outcome.first_failure.map(|rank| &outcome.ranks[rank]);
    let too_soon = first.is_none_or(|rank| rank.elapsed < TOO_SOON);
    failed && !unwanted && !too_soon && !STARTED_WRONGLY.contains(&outcome.exit_code())
}

/// A sink that is lent to one start after the other. One that lost the output, and may hold it for ever, is the last.
#[derive(Clone)]
pub(crate) struct Lent(Arc<Mutex<Owned>>);

struct Owned {
    sink: Box<dyn Sink>,
    /// Whether it has begun: logs go on when a job starts again.
    has_begun: bool,
}

impl Lent {
    pub(crate) fn new(sink: Box<dyn Sink>) -> Self {
        let has_begun = false;
        Self(Arc::new(Mutex::new(Owned { sink, has_begun })))
    }

    fn owned(&self) -> MutexGuard<'_, Owned> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sink for Lent {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        self.owned().sink.line(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.owned().sink.flush()
    }

    fn started(&mut self) -> io::Result<()> {
        let mut owned = self.owned();
        if std::mem::replace(&mut owned.has_begun, true) {
            return Ok(());
        }
        owned.sink.started()
    }

    fn patience(&self, stream: Stream) -> Option<Duration> {
        self.owned().sink.patience(stream)
    }
}
