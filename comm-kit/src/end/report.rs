//! Reports the first cause of a rank to its launcher.
//!
//! Ranks that lost a peer often exit before that peer does, because the peer still prints a backtrace or
//! frees its memory. A launcher that watches only exits would then blame the wrong rank. A launcher may
//! therefore pass every rank the write end of a pipe and describe it in [`VARIABLE`]. The
//! [`Gate`](crate::Gate) writes to it, once per process, which rank its communicator lost and how.
//!
//! One report is not about a failure, only about speed: that a job over tcp has no ring.
//!
//! A refusal is not a first cause, because the communicator stays usable; but most programs exit after one.
//! So a refusal is reported too, and withdrawn when the next call begins: what remains when a rank exits is
//! that its last call was refused, and by which rank.
//!
//! Nothing is opened, read or checked before a failure, so reports cost nothing without such a launcher. The
//! variable holds the number of the descriptor, the inode of the pipe, and the rank. A report is written only
//! if the descriptor is that pipe, so a stale or invented number does no harm. The pipe is reopened without
//! blocking for each report, so that neither the launcher nor another process that holds the read end can
//! block a rank.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use comm_api::{CommError, FailureKind, Place};

/// The variable in which a launcher describes the pipe, in the format of [`Pipe`].
pub const VARIABLE: &str = "COBRE_COMM_REPORT_FD";

/// The folder in which the descriptors of this process appear as files.
const DESCRIPTORS: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// The beginning of every line: anything else that ends up in the pipe is not a report.
const MAGIC: &str = "cobre-report";
/// The longest place that is reported: a line is written in one piece up to `PIPE_BUF`, 512 bytes at least.
const LONGEST_PLACE: usize = 400;
/// A program that continues after this many refusals handles them; later ones are not reported, so that the
/// pipe does not fill up.
const MOST_REFUSALS: u32 = 16;

/// Where a rank writes its reports: `descriptor:inode:rank`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pipe {
    /// The number of the descriptor in the rank.
    pub descriptor: u32,
    /// The inode of the pipe.
    pub inode: u64,
    /// The rank.
    pub rank: usize,
}

impl fmt::Display for Pipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.descriptor, self.inode, self.rank)
    }
}

impl Pipe {
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut part = || parts.next().and_then(number);
        let (descriptor, inode, rank) = (part()?, part()?, part()?);
        Some(Self {
            // 0, 1 and 2 belong to the program.
            descriptor: u32::try_from(descriptor).ok().filter(|&fd| fd > 2)?,
            inode,
            rank: usize::try_from(rank).ok()?,
        })
        .filter(|_| parts.next().is_none())
    }
}

/// Only digits; `parse` would accept a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// One report of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The rank that reports.
    pub rank: usize,
    /// What happened to the rank.
    pub what: What,
    /// The rank to blame, if known.
    pub named: Option<usize>,
    /// Where its program made the call that failed, if that is known.
    pub at: Option<Place>,
}

/// What happened to a rank that reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A call failed fatally, or was refused: see [`Report::is_refusal`].
    Failed(FailureKind),
    /// The job did not start because ranks are missing.
    Start,
    /// The rank panicked inside a call.
    Panicked,
    /// The rank entered another call after a refusal that it had reported.
    Resumed,
    /// Not all ranks can reach each other, so large calls go through rank 0. Not a failure.
    NoRing,
}

impl What {
    /// Returns a short name that programs and logs may rely on: it never changes.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failed(kind) => kind.as_str(),
            Self::Start => "start_failed",
            Self::Panicked => "panicked",
            Self::Resumed => "resumed",
            Self::NoRing => "no_ring",
        }
    }
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(kind) => kind.fmt(f),
            Self::Start => f.pad("not all ranks joined"),
            Self::Panicked => f.pad("panicked inside a call"),
            Self::Resumed => f.pad("continued after a refusal"),
            Self::NoRing => f.pad("has no ring"),
        }
    }
}

/// The words on the wire. A launcher ignores lines with unknown words.
const WORDS: [(&str, What); 11] = [
    ("lost", What::Failed(FailureKind::PeerLost)),
    ("late", What::Failed(FailureKind::TimedOut)),
    ("mismatch", What::Failed(FailureKind::Mismatch)),
    ("aborted", What::Failed(FailureKind::Aborted)),
    ("io", What::Failed(FailureKind::Io)),
    ("mpi", What::Failed(FailureKind::Mpi)),
    ("start", What::Start),
    ("panicked", What::Panicked),
    ("refused", REFUSED),
    ("resumed", What::Resumed),
    ("no-ring", What::NoRing),
];

const REFUSED: What = What::Failed(FailureKind::Refused);

impl Report {
    /// Returns the line to send, which is far shorter than `PIPE_BUF` and therefore atomic. `None` for a
    /// failure that is not reported.
    fn line(self) -> Option<String> {
        let (word, _) = WORDS.iter().find(|(_, what)| *what == self.what)?;
        let named = self.named.map_or("-".to_owned(), |rank| rank.to_string());
        let at = self.at.map_or_else(String::new, |at| format!(" {at}"));
        // A name of a file may be anything, and the line must arrive in one piece.
        let at = Some(at).filter(|at| at.len() <= LONGEST_PLACE && !at.contains(char::is_control));
        let at = at.unwrap_or_default();
        Some(format!("{MAGIC} {} {word} {named}{at}\n", self.rank))
    }

    /// Returns the rank that is lost according to this report. That rank has exited or is about to; so has
    /// one whose call was refused.
    #[must_use]
    pub fn lost(&self) -> Option<usize> {
        let kinds = [
            FailureKind::PeerLost,
            FailureKind::Aborted,
            FailureKind::Refused,
        ];
        let is_lost = kinds.map(What::Failed).contains(&self.what);
        self.named.filter(|_| is_lost)
    }

    /// Returns whether only a call was refused: a weak cause, because the communicator stays usable.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.what == REFUSED
    }

    /// Returns the report that counts for a rank that had reported `before` and now reports this: its first
    /// fatal failure, otherwise its last refusal, unless the rank has continued since.
    #[must_use]
    pub fn after(self, before: Option<Self>) -> Option<Self> {
        match before {
            before if self.what == What::NoRing => before,
            Some(before) if !before.is_refusal() => Some(before),
            _ => Some(self).filter(|report| report.what != What::Resumed),
        }
    }

    /// Parses a line as the launcher reads it from the pipe, to which other processes may have written too.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        // The name of a file may contain spaces: it comes last.
        let mut parts = std::str::from_utf8(line).ok()?.splitn(5, ' ');
        let (magic, rank, word) = (parts.next()?, parts.next()?, parts.next()?);
        let named = match parts.next()? {
            "-" => None,
            named => Some(usize::try_from(number(named)?).ok()?),
        };
        let (_, what) = WORDS.iter().find(|(known, _)| *known == word)?;
        let report = Self {
            rank: usize::try_from(number(rank)?).ok()?,
            what: *what,
            named,
            at: match parts.next() {
                None => None,
                Some(at) => {
                    let (file, line) = at.rsplit_once(':')?;
                    let line = u32::try_from(number(line)?).ok()?;
                    Some(Place::new(file, line))
                }
            },
        };
        Some(report).filter(|_| magic == MAGIC)
    }
}

/// Reports the first cause of a communicator.
#[cold]
pub(crate) fn failed(error: &CommError) {
    if let CommError::CollectiveFailed { kind, rank, .. } = *error {
        send(What::Failed(kind), rank, error.place());
    }
}

/// Reports that this rank panicked inside a call.
#[cold]
pub(crate) fn panicked(rank: usize, at: Place) {
    send(What::Panicked, Some(rank), Some(at));
}

/// Reports that the job did not start because of the rank `named`, or of an unknown rank. For the start-up of
/// a backend, which has no [`Gate`](crate::Gate) yet.
#[cold]
pub fn start_failed(named: Option<usize>) {
    send(What::Start, named, None);
}

/// Reports, once, that not all ranks can reach each other, so that large calls go through rank 0.
#[cold]
pub fn no_ring() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(place) = asked()
        // Relaxed: guards no other data.
        && !SAID.swap(true, Ordering::Relaxed)
    {
        write(place, What::NoRing, None, None);
    }
}

/// Reports that the rank `named`, this one or another, refused the arguments of a call. Returns whether the
/// report must be withdrawn when the next call begins.
#[cold]
pub(crate) fn refused(named: usize, at: impl FnOnce() -> Place) -> bool {
    static REFUSALS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: guards no other data.
    asked().is_some_and(|place| {
        REFUSALS.fetch_add(1, Ordering::Relaxed) < MOST_REFUSALS
            && write(place, REFUSED, Some(named), Some(at())).is_some()
    })
}

/// Withdraws the report of a refusal: the program continues.
#[cold]
pub(crate) fn resumed() {
    if let Some(place) = asked() {
        write(place, What::Resumed, None, None);
    }
}

/// Writes the first failure of this process. Later failures, and all failures without a launcher that asked
/// for reports, are not written.
fn send(what: What, named: Option<usize>, at: Option<Place>) {
    static SENT: AtomicBool = AtomicBool::new(false);
    if let Some(place) = asked()
        // Relaxed: guards no other data.
        && !SENT.swap(true, Ordering::Relaxed)
    {
        write(place, what, named, at);
    }
}

/// Returns where the launcher asked for reports, if it did.
fn asked() -> Option<Pipe> {
    Pipe::parse(&std::env::var(VARIABLE).ok()?)
}

/// Writes to the pipe of `place`, if it exists. The report is lost if the launcher is gone or does not read.
fn write(place: Pipe, what: What, named: Option<usize>, at: Option<Place>) -> Option<()> {
    let rank = place.rank;
    let line = Report {
        rank,
        what,
        named,
        at,
    }
    .line()?;
    let path = format!("{DESCRIPTORS}/{}", place.descriptor);
    let is_the_pipe =
        |found: &std::fs::Metadata| found.file_type().is_fifo() && found.ino() == place.inode;
    // Checked before it is opened, because opening has side effects on some devices, and again on the opened
    // file.
    std::fs::metadata(&path).ok().filter(is_the_pipe)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = OpenOptions::new();
    let mut pipe = pipe.write(true).custom_flags(flags).open(&path).ok()?;
    pipe.metadata().ok().filter(is_the_pipe)?;
    // A single write: `write_all` would continue after a partial one.
    let written = pipe.write(line.as_bytes()).ok()?;
    (written == line.len()).then_some(())
}

#[cfg(test)]
mod tests;
