//! Passes batches from the readers of all streams to the sinks. Each sink has its own [`Lane`], so no sink waits for
//! another. The ranks wait for the slowest sink, because the amount of output between readers and sinks is bounded.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use memchr::memchr_iter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::output::lane::{Lane, ROOM, foreign};
use crate::output::pump::lines;
use crate::output::{Line, LineEnd, Sink, Stream};
use crate::supervise::tasks::Event;

/// Whole lines of one stream; only the last may lack its newline, and `end` tells why.
#[derive(Debug)]
pub(super) struct Batch {
    pub(crate) rank: usize,
    pub(crate) stream: Stream,
    pub(super) bytes: Vec<u8>,
    pub(super) end: LineEnd,
    /// Its share of the room, released when the last sink is done with it.
    _room: Option<OwnedSemaphorePermit>,
}

/// An item for a sink.
#[derive(Debug)]
enum Parcel {
    /// Every rank runs, for the first time or after a restart. Events go to this sender from now on.
    Begin(mpsc::UnboundedSender<Event>),
    Batch(Arc<Batch>),
    /// All readers are done.
    End {
        _reports: End,
    },
}

/// Sends an event when it is dropped, which a sink does when it has everything.
#[derive(Debug)]
struct End(mpsc::UnboundedSender<Event>);

impl Drop for End {
    fn drop(&mut self) {
        let _ = self.0.send(Event::Delivered);
    }
}

/// The lanes to all sinks of a job. They survive its restarts.
#[derive(Debug)]
pub(crate) struct Lanes {
    /// Each with a flag: whether the sink is busy with lines.
    all: Vec<(Lane<Parcel>, Arc<AtomicBool>)>,
    room: Arc<Semaphore>,
    patience: [Option<Duration>; 2],
}

impl Lanes {
    /// Starts a thread for each sink.
    ///
    /// # Errors
    ///
    /// Fails when a thread cannot be started.
    pub(crate) fn start(sinks: Vec<Box<dyn Sink>>) -> io::Result<Self> {
        let patience = [Stream::Stdout, Stream::Stderr];
        let shortest = |stream| sinks.iter().filter_map(|sink| sink.patience(stream)).min();
        let patience = patience.map(shortest);
        let lanes = sinks.into_iter().map(|sink| {
            let delivers = Arc::new(AtomicBool::new(false));
            let mut feeder = Feeder {
                sink,
                delivers: Arc::clone(&delivers),
                has_begun: false,
                failure: None,
                events: None,
            };
            let take = move |parcel, is_last| feeder.take(&parcel, is_last);
            Ok((Lane::start("comm-run-output", take)?, delivers))
        });
        Ok(Self {
            all: lanes.collect::<io::Result<_>>()?,
            room: Arc::new(Semaphore::new(ROOM)),
            patience,
        })
    }

    /// Returns how many sinks there are: each sends [`Event::Delivered`] when it has all lines of a start.
    pub(crate) fn count(&self) -> usize {
        self.all.len()
    }

    /// Returns how long a line of this stream may stay unfinished before its beginning is passed on.
    pub(crate) fn patience(&self, stream: Stream) -> Option<Duration> {
        self.patience[usize::from(stream == Stream::Stderr)]
    }

    /// Returns how many lines the slowest sink has not taken, at least.
    pub(crate) fn left(&self) -> usize {
        let size = |parcel: &Parcel| match parcel {
            Parcel::Batch(batch) => {
                let newlines = memchr_iter(b'\n', &batch.bytes).count();
                newlines + usize::from(batch.bytes.last() != Some(&b'\n'))
            }
            Parcel::Begin(_) | Parcel::End { .. } => 0,
        };
        let left = self.all.iter().map(|(lane, delivers)| {
            // Relaxed: only a number, no access to other memory depends on it.
            lane.left(size).0 + usize::from(delivers.load(Ordering::Relaxed))
        });
        left.max().unwrap_or(0)
    }

    fn push(&self, parcel: impl Fn() -> Parcel) {
        for (lane, _) in &self.all {
            lane.push_if(parcel(), |_| true);
        }
    }
}

/// Passes the lines of one start to the sinks. When the last clone is dropped, the sinks know that they have everything.
#[derive(Debug, Clone)]
pub(crate) struct Outlet(Arc<Start>);

#[derive(Debug)]
struct Start {
    lanes: Arc<Lanes>,
    events: mpsc::UnboundedSender<Event>,
}

impl Outlet {
    /// Starts the sinks, which report to `events`.
    pub(crate) fn begin(lanes: &Arc<Lanes>, events: &mpsc::UnboundedSender<Event>) -> Self {
        lanes.push(|| Parcel::Begin(events.clone()));
        Self(Arc::new(Start {
            lanes: Arc::clone(lanes),
            events: events.clone(),
        }))
    }

    /// Passes lines on to all sinks, once there is room for them.
    pub(super) async fn send(&self, rank: usize, stream: Stream, bytes: Vec<u8>, end: LineEnd) {
        let size = bytes.capacity().clamp(1, ROOM);
        let size = u32::try_from(size).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.0.lanes.room);
        let batch = Arc::new(Batch {
            rank,
            stream,
            bytes,
            end,
            _room: room.acquire_many_owned(size).await.ok(),
        });
        self.0.lanes.push(|| Parcel::Batch(Arc::clone(&batch)));
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        self.lanes.push(|| Parcel::End {
            _reports: End(self.events.clone()),
        });
    }
}

/// Feeds one sink. After an error or a panic of the sink it does not call the sink again, but it keeps taking batches, so that
/// no rank blocks on a full pipe while it is being ended.
struct Feeder {
    sink: Box<dyn Sink>,
    delivers: Arc<AtomicBool>,
    has_begun: bool,
    failure: Option<String>,
    events: Option<mpsc::UnboundedSender<Event>>,
}

impl Feeder {
    fn take(&mut self, parcel: &Parcel, is_last: bool) {
        if let Parcel::Begin(events) = parcel {
            self.events = Some(events.clone());
        }
        let result = match &self.failure {
            // After a restart, the new start must learn of the failure, too.
            Some(failure) if matches!(parcel, Parcel::Begin(_)) => {
                return self.report(io::Error::other(failure.clone()));
            }
            Some(_) => return,
            None => foreign(|| self.call(parcel, is_last)),
        };
        if let Err(error) = result {
            self.failure = Some(error.to_string());
            self.report(error);
        }
    }

    fn call(&mut self, parcel: &Parcel, is_last: bool) -> io::Result<()> {
        match parcel {
            // Only once: after a restart, logs continue.
            Parcel::Begin(_) if std::mem::replace(&mut self.has_begun, true) => Ok(()),
            Parcel::Begin(_) => self.sink.started(),
            Parcel::Batch(batch) => {
                self.delivers.store(true, Ordering::Relaxed);
                let delivered = deliver(batch, self.sink.as_mut(), is_last);
                self.delivers.store(false, Ordering::Relaxed);
                delivered
            }
            Parcel::End { .. } => self.sink.flush(),
        }
    }

    fn report(&self, error: io::Error) {
        if let Some(events) = &self.events {
            let _ = events.send(Event::Lost(error));
        }
    }
}

fn deliver(batch: &Batch, sink: &mut dyn Sink, is_last: bool) -> io::Result<()> {
    let Batch { rank, stream, .. } = *batch;
    for (bytes, end) in lines(&batch.bytes, batch.end) {
        sink.line(Line {
            rank,
            stream,
            bytes,
            end,
        })?;
    }
    if is_last { sink.flush() } else { Ok(()) }
}
