//! The default sink: this process's own standard output and error, with the rank in front of every line.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};
use memchr::memchr;

use crate::output::write::write_fully;
use crate::output::{Line, LineEnd, Sink, Stream};

/// How many bytes are gathered before a write when lines arrive faster than they can be written.
const GATHER_BYTES: usize = 128 << 10;
/// When a terminal shows the beginning of an unfinished line: soon for a person, but later than a rank pauses within a line
/// while it is not waiting for anything.
const ON_TERMINAL: Duration = Duration::from_millis(100);
/// The same for a file or a pipe, whose reader prefers whole lines to early ones.
const ELSEWHERE: Duration = Duration::from_secs(1);

/// Writes `[2] text`: a rank's stdout to stdout, its stderr to stderr, the prefix coloured on a
/// terminal.
///
/// An unfinished line is shown after 100 ms on a terminal and after 1 s elsewhere, and its rest follows
/// directly. If another line was written in between, the rest follows on a new line.
/// On a terminal a carriage return goes back to the text, not to the rank in front of it.
#[derive(Debug)]
pub struct Terminal {
    stdout: Target,
    stderr: Target,
    /// Whether both streams are the same file, so that their lines mix.
    shared: bool,
    /// The unfinished last line of stdout and of stderr; only the first is used if both are the same file.
    open: [Option<Open>; 2],
    /// The streams whose unfinished line was interrupted by another stream.
    torn: BTreeSet<(usize, bool)>,
}

/// A line that was shown unfinished.
#[derive(Debug, Clone, Copy)]
struct Open {
    rank: usize,
    stream: Stream,
    end: LineEnd,
    /// Whether it has returned to its beginning, as a progress bar does.
    bar: bool,
    /// Whether the next character overwrites the rank in front.
    returned: bool,
}

#[derive(Debug)]
struct Target {
    file: File,
    colour: bool,
    terminal: bool,
    gathered: Vec<u8>,
    /// The prefix of the last line, and its rank: lines of one rank often follow each other.
    prefix: (Option<usize>, Vec<u8>),
}

impl Terminal {
    /// Uses this process's stdout and stderr. A terminal that supports colours gets
    /// them, unless `NO_COLOR` is set; `CLICOLOR_FORCE` enables them elsewhere, too.
    ///
    /// # Errors
    ///
    /// Fails when no descriptor is left.
    pub fn new() -> io::Result<Self> {
        let stdout = Target::new(&io::stdout())?;
        let stderr = Target::new(&io::stderr())?;
        let identity = |target: &Target| {
            let file = rustix::fs::fstat(&target.file).ok()?;
            Some((file.st_dev, file.st_ino))
        };
        let shared = identity(&stdout).is_some_and(|file| identity(&stderr) == Some(file));
        Ok(Self {
            stdout,
            stderr,
            shared,
            open: [None; 2],
            torn: BTreeSet::new(),
        })
    }
}

impl Sink for Terminal {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        let is_stderr = line.stream == Stream::Stderr;
        let place = usize::from(is_stderr && !self.shared);
        let (target, other) = if is_stderr {
            (&mut self.stderr, &mut self.stdout)
        } else {
            (&mut self.stdout, &mut self.stderr)
        };
        // Both may be the same terminal: keep the order in which the lines came.
        other.flush()?;
        let open = self.open[place];
        let goes_on = open.is_some_and(|open| (open.rank, open.stream) == (line.rank, line.stream));
        let torn = !self.torn.is_empty() && self.torn.remove(&(line.rank, is_stderr));
        if !goes_on && line.bytes.is_empty() && (torn || line.end == LineEnd::Missing) {
            // The whole line was already shown, and the interrupting line has ended it.
            return Ok(());
        }
        if let Some(open) = open.filter(|_| !goes_on) {
            self.torn.insert((open.rank, open.stream == Stream::Stderr));
            target.leave(open, line);
        }
        self.open[place] = target.add(line, open.filter(|_| goes_on))?;
        if target.gathered.len() < GATHER_BYTES {
            Ok(())
        } else {
            target.flush()
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stdout.flush()?;
        self.stderr.flush()
    }

    fn patience(&self, stream: Stream) -> Option<Duration> {
        let target = match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        };
        Some(if target.terminal {
            ON_TERMINAL
        } else {
            ELSEWHERE
        })
    }
}

impl Target {
    /// Bypasses the standard library's line buffer: lines arrive whole, and a partial write must
    /// not get lost.
    fn new<S: AsFd + RawStream>(of: &S) -> io::Result<Self> {
        let colour = AutoStream::choice(of) != ColorChoice::Never;
        let file = File::from(of.as_fd().try_clone_to_owned()?);
        Ok(Self {
            terminal: of.is_terminal(),
            file,
            colour,
            gathered: Vec::new(),
            prefix: (None, Vec::new()),
        })
    }

    /// Ends another stream's unfinished line before `next`. On a terminal the next progress bar overwrites a progress bar:
    /// otherwise those of many ranks would fill the screen.
    fn leave(&mut self, open: Open, next: Line<'_>) {
        let next_is_bar = next.end == LineEnd::Open && memchr(b'\r', next.bytes).is_some();
        if self.terminal && open.bar && next_is_bar {
            self.gathered.push(b'\r');
            if self.colour {
                self.gathered.extend_from_slice(b"\x1b[K");
            }
            return;
        }
        if open.end == LineEnd::Limit {
            self.gathered
                .extend_from_slice(b" [comm-run: this line goes on]");
        }
        self.gathered.push(b'\n');
    }

    /// Adds a line, or a piece that continues `open`; returns the line that is unfinished then, if any.
    fn add(&mut self, line: Line<'_>, open: Option<Open>) -> io::Result<Option<Open>> {
        let (mut bar, mut returned) = open.map_or((false, false), |open| (open.bar, open.returned));
        if open.is_none() {
            self.add_prefix(line.rank);
        }
        if self.terminal {
            for part in line.bytes.split_inclusive(|&byte| byte == b'\r') {
                if returned {
                    self.add_prefix(line.rank);
                }
                self.gathered.extend_from_slice(part);
                returned = part.ends_with(b"\r");
                bar |= returned;
            }
        } else if line.bytes.len() < GATHER_BYTES {
            self.gathered.extend_from_slice(line.bytes);
        } else {
            // A copy of a line of many megabytes would double the memory.
            self.flush()?;
            write_fully(&self.file, line.bytes, None)?;
        }
        if matches!(line.end, LineEnd::Open | LineEnd::Limit) {
            return Ok(Some(Open {
                rank: line.rank,
                stream: line.stream,
                end: line.end,
                bar,
                returned,
            }));
        }
        self.gathered.push(b'\n');
        Ok(None)
    }

    fn add_prefix(&mut self, rank: usize) {
        let (known, prefix) = &mut self.prefix;
        if *known != Some(rank) {
            let text = if self.colour {
                // Six colours that are readable on dark and light backgrounds.
                format!("\x1b[3{}m[{rank}]\x1b[0m ", 1 + rank % 6)
            } else {
                format!("[{rank}] ")
            };
            (*known, *prefix) = (Some(rank), text.into_bytes());
        }
        self.gathered.extend_from_slice(prefix);
    }

    fn flush(&mut self) -> io::Result<()> {
        write_fully(&self.file, &self.gathered, None)?;
        self.gathered.clear();
        self.gathered.shrink_to(2 * GATHER_BYTES);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
