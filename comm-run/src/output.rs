//! The output of the ranks, from their pipes to the sinks: this process's terminal, files, or a sink of the program.
//!
//! ```text
//! pipe -> pump (whole lines) -> delivery (one lane per sink) -> terminal, logs, a sink of the program
//! ```
//!
//! | module | what |
//! |---|---|
//! | `pump` | one stream of a rank: reads it and finds its lines, within the memory limit of all streams |
//! | `delivery`, `lane` | a queue and a thread for each sink |
//! | `terminal`, `logs` | the sinks of this crate |
//! | `events` | the events of the job as JSON lines |
//! | `write` | writes that may block until there is a reader or room |

pub(crate) mod delivery;
pub(crate) mod events;
pub(crate) mod lane;
pub(crate) mod logs;
pub(crate) mod pump;
pub(crate) mod terminal;
pub(crate) mod write;

use std::io;
use std::time::Duration;

/// One of the two output streams of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// The rank's standard output.
    Stdout,
    /// The rank's standard error.
    Stderr,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineEnd {
    /// With a newline.
    Newline,
    /// With the end of the stream: the rank wrote no final newline.
    Missing,
    /// Not yet: it is longer than 64 MiB, or the unfinished lines of all ranks together are. The next [`Line`] of the stream
    /// continues it.
    Limit,
    /// Not yet: the rank has paused in the middle of it, and the next [`Line`] of the stream may continue it. See
    /// [`Job::live`](crate::Job::live) and [`Sink::patience`].
    Open,
}

/// One line of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The rank that wrote it.
    pub rank: usize,
    /// The stream that the rank wrote to.
    pub stream: Stream,
    /// The bytes as written, without the newline (a `\r` before it stays).
    pub bytes: &'a [u8],
    /// How it ended.
    pub end: LineEnd,
}

/// Receives every line of every rank.
///
/// # Contract
///
/// - Lines of one stream of one rank arrive whole and in order; the order between streams is unspecified.
///   A line that is too long, or that the sink wants early, arrives in pieces; the last piece
///   may be empty, and ends as [`Newline`](LineEnd::Newline) or [`Missing`](LineEnd::Missing).
/// - Each sink has its own thread, which makes one call at a time, so the sink may block: the ranks wait
///   for it, no output is lost, and supervision continues. When a job has failed or was stopped and its ranks are gone, it
///   abandons a sink that still blocks after some seconds, see [`Outcome::undelivered`](crate::Outcome::undelivered).
/// - An error ends the job, as a closed pipe ends a program. The sink is not called again.
///
/// Any `FnMut(Line<'_>) -> io::Result<()> + Send` is a sink.
pub trait Sink: Send {
    /// Takes one line.
    ///
    /// # Errors
    ///
    /// Fails when the sink can write no more lines.
    fn line(&mut self, line: Line<'_>) -> io::Result<()>;

    /// Called once, before the first line, when every rank runs its program; not called if the job does not start.
    ///
    /// # Errors
    ///
    /// As for [`line`](Self::line).
    fn started(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns how long a line of this stream may stay unfinished before its beginning is passed on as
    /// [`Open`](LineEnd::Open). `None`, the default, waits for the end of the line.
    fn patience(&self, _stream: Stream) -> Option<Duration> {
        None
    }

    /// Writes out what [`line`](Self::line) has buffered. Called whenever no further line is
    /// waiting, and at the end.
    ///
    /// # Errors
    ///
    /// As for [`line`](Self::line).
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<F: FnMut(Line<'_>) -> io::Result<()> + Send> Sink for F {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        self(line)
    }
}
