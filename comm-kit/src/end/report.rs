//! The first cause of a rank, on its way to the launcher.
//!
//! Ranks that lost a peer often end before the peer does: it still prints a backtrace, or frees its memory. Whoever watches only
//! exits blames the wrong rank then. So a launcher may pass every rank the writing end of a pipe, and say so in [`VARIABLE`]; the
//! [`Gate`](crate::Gate) writes there, once per process, which rank its communicator lost and how.
//!
//! Beside causes one thing is reported that harms only the speed: that a job over tcp has no ring.
//!
//! A refusal is no such cause, because the communicator goes on; but most programs end with it. So it is reported as well, and
//! taken back when the next call begins: what stands at the end of a rank is that its last call was refused, and by whom.
//!
//! Nothing is opened, read or checked before something fails, so it costs nothing where no launcher asked for it. The variable
//! holds the number of the descriptor, the inode of the pipe and the rank, and a report is written only if the descriptor is that
//! pipe: a number that means something else by now, or that somebody made up, is left alone. The pipe is opened anew for the
//! report, without blocking, so that neither the launcher nor anybody who holds the other end can stop a rank.

use std::fmt;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use comm_api::{CommError, FailureKind};

/// The variable in which a launcher describes the pipe: a [`Place`].
pub const VARIABLE: &str = "COBRE_COMM_REPORT_FD";

/// Where the descriptors of this process are found as files.
const DESCRIPTORS: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// Every line begins with it: something else that ends up in the pipe is no report.
const MAGIC: &str = "cobre-report";
/// A program that has gone on after so many refusals knows what it does; the pipe stays free for what counts.
const MOST_REFUSALS: u32 = 16;

/// Where a rank reports: `descriptor:inode:rank`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The number of the descriptor in the rank.
    pub descriptor: u32,
    /// The inode of the pipe.
    pub inode: u64,
    /// The rank.
    pub rank: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.descriptor, self.inode, self.rank)
    }
}

impl Place {
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

/// Digits and nothing else; `parse` would take a sign.
fn number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// What a rank reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    /// The rank that reports.
    pub rank: usize,
    /// What happened to it.
    pub what: What,
    /// The rank to blame, if it knows.
    pub named: Option<usize>,
}

/// What happened to a rank that reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum What {
    /// A call failed for good, or was refused: [`Report::is_refusal`].
    Failed(FailureKind),
    /// The ranks did not come together.
    Start,
    /// It panicked inside a call.
    Panicked,
    /// It entered another call after a refusal that it had reported.
    Resumed,
    /// The ranks cannot all reach each other, so large calls go through rank 0. No failure.
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
            Self::Start => f.pad("not all ranks came"),
            Self::Panicked => f.pad("panicked inside a call"),
            Self::Resumed => f.pad("went on after a refusal"),
            Self::NoRing => f.pad("has no ring"),
        }
    }
}

/// The words of the pipe. A launcher that does not know one leaves the line alone.
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
    /// Returns the line that travels; far below `PIPE_BUF`, so it arrives in one piece. `None` for a failure that nobody
    /// reports.
    fn line(self) -> Option<String> {
        let (word, _) = WORDS.iter().find(|(_, what)| *what == self.what)?;
        let named = self.named.map_or("-".to_owned(), |rank| rank.to_string());
        Some(format!("{MAGIC} {} {word} {named}\n", self.rank))
    }

    /// Returns the rank that is lost, as far as this one knows: it has ended or is about to, as those whose call was refused are.
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

    /// Returns whether only a call was refused: a weak cause, because the communicator goes on.
    #[must_use]
    pub fn is_refusal(&self) -> bool {
        self.what == REFUSED
    }

    /// Returns what stands of a rank that had reported `before` and now reports this: its first failure for good, else its last
    /// refusal, unless it has gone on.
    #[must_use]
    pub fn after(self, before: Option<Self>) -> Option<Self> {
        match before {
            before if self.what == What::NoRing => before,
            Some(before) if !before.is_refusal() => Some(before),
            _ => Some(self).filter(|report| report.what != What::Resumed),
        }
    }

    /// Reads a line as the launcher finds it in the pipe, where others may have written too.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let mut parts = std::str::from_utf8(line).ok()?.split(' ');
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
        };
        Some(report).filter(|_| magic == MAGIC && parts.next().is_none())
    }
}

/// Reports the first cause of a communicator.
#[cold]
pub(crate) fn failed(error: &CommError) {
    if let CommError::CollectiveFailed { kind, rank, .. } = *error {
        send(What::Failed(kind), rank);
    }
}

/// Reports that this rank panicked inside a call.
#[cold]
pub(crate) fn panicked(rank: usize) {
    send(What::Panicked, Some(rank));
}

/// Reports that the ranks did not come together because of the rank `named`, or of one that this rank does not know: for the
/// start-up of a backend, which has no [`Gate`](crate::Gate) yet.
#[cold]
pub fn start_failed(named: Option<usize>) {
    send(What::Start, named);
}

/// Reports, once, that the ranks cannot all reach each other, so that large calls go through rank 0.
#[cold]
pub fn no_ring() {
    static SAID: AtomicBool = AtomicBool::new(false);
    if let Some(place) = asked()
        // Relaxed: it guards nothing but itself.
        && !SAID.swap(true, Ordering::Relaxed)
    {
        write(place, What::NoRing, None);
    }
}

/// Reports that the rank `named`, this one or another, refused the arguments of a call; returns whether that has to be taken back
/// when the next call begins.
#[cold]
pub(crate) fn refused(named: usize) -> bool {
    static REFUSALS: AtomicU32 = AtomicU32::new(0);
    // Relaxed: it guards nothing but itself.
    asked().is_some_and(|place| {
        REFUSALS.fetch_add(1, Ordering::Relaxed) < MOST_REFUSALS
            && write(place, REFUSED, Some(named)).is_some()
    })
}

/// Takes back that a call was refused: the program goes on.
#[cold]
pub(crate) fn resumed() {
    if let Some(place) = asked() {
        write(place, What::Resumed, None);
    }
}

/// Writes the first failure of this process; later ones, and those that nobody asked for, go nowhere.
fn send(what: What, named: Option<usize>) {
    static SENT: AtomicBool = AtomicBool::new(false);
    if let Some(place) = asked()
        // Relaxed: it guards nothing but itself.
        && !SENT.swap(true, Ordering::Relaxed)
    {
        write(place, what, named);
    }
}

/// Returns where a launcher asked for reports, if one did.
fn asked() -> Option<Place> {
    Place::parse(&std::env::var(VARIABLE).ok()?)
}

/// Writes to the pipe of `place`, if it is there. A launcher that is gone or does not read loses the report.
fn write(place: Place, what: What, named: Option<usize>) -> Option<()> {
    let rank = place.rank;
    let line = Report { rank, what, named }.line()?;
    let path = format!("{DESCRIPTORS}/{}", place.descriptor);
    let is_the_pipe =
        |found: &std::fs::Metadata| found.file_type().is_fifo() && found.ino() == place.inode;
    // Before it is opened, which alone would do something to some devices, and again for what was opened.
    std::fs::metadata(&path).ok().filter(is_the_pipe)?;
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let mut pipe = OpenOptions::new();
    let mut pipe = pipe.write(true).custom_flags(flags).open(&path).ok()?;
    pipe.metadata().ok().filter(is_the_pipe)?;
    // One write: `write_all` would go on after a part.
    let written = pipe.write(line.as_bytes()).ok()?;
    (written == line.len()).then_some(())
}

#[cfg(test)]
mod tests;
