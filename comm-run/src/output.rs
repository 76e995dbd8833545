//! What the ranks write, from their pipes to the sinks: this process's terminal, files, or wherever a program wants it.
//!
//! ```text
//! pipe -> pump (whole lines) -> delivery (one lane per sink) -> terminal, logs, a sink of the program
//! ```
//!
//! | module | what |
//! |---|---|
//! | `pump` | one stream of a rank: reads it and finds its lines, within the memory that all share |
//! | `delivery`, `lane` | a queue and a thread for each sink |
//! | `terminal`, `logs` | the sinks of this crate |
//! | `events` | the life of the job as lines of JSON |
//! | `write` | writes that may have to wait for a reader or for room |

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
    /// What the rank writes to its standard output.
    Stdout,
    /// What the rank writes to its standard error.
    Stderr,
}

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LineEnd {
    /// With a newline.
    Newline,
    /// With the end of the stream: the rank wrote no newline.
    Missing,
    /// Not yet: it is longer than 64 MiB, or all ranks together hold more than that in lines that have not ended. It goes on
    /// in the next one.
    Limit,
    /// Not yet: the rank has written this much of it and paused, and more may follow in the next one. See
    /// [`Job::live`](crate::Job::live) and [`Sink::patience`].
    Open,
}

/// One line of one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line<'a> {
    /// The rank that wrote it.
    pub rank: usize,
    /// The stream it wrote it to.
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
/// - Lines of one stream of one rank arrive whole and in order; nothing is said about the order
///   between streams. One that is too long, or that the sink wants to have early, arrives in pieces; the last
///   may be empty, and ends as [`Newline`](LineEnd::Newline) or [`Missing`](LineEnd::Missing).
/// - Calls come one at a time, from a thread of the sink's own, so it may block: the ranks wait
///   for it, no output is lost, and supervision goes on. Once a job has failed or was stopped, and its ranks are gone, a sink that
///   still blocks is left behind after some seconds: [`Outcome::undelivered`](crate::Outcome::undelivered).
/// - An error ends the job, as a closed pipe ends a program. The sink is not called again.
///
/// Any `FnMut(Line<'_>) -> io::Result<()> + Send` is a sink.
pub trait Sink: Send {
    /// Takes one line.
    ///
    /// # Errors
    ///
    /// Fails when the line cannot be written anywhere any more.
    fn line(&mut self, line: Line<'_>) -> io::Result<()>;

    /// Begins: every rank runs its program. Called once, before the first line, and not at all if a job does not start.
    ///
    /// # Errors
    ///
    /// As for [`line`](Self::line).
    fn started(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Returns how long a line of this stream may take to end before what there is of it is passed on, as
    /// [`Open`](LineEnd::Open). `None`, the default, waits for the end.
    fn patience(&self, _stream: Stream) -> Option<Duration> {
        None
    }

    /// Passes on what [`line`](Self::line) may hold back. Called whenever no further line is
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
