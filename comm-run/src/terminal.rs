//! The default sink: this process's own standard output and error, every line with its rank in
//! front.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::thread::sleep;
use std::time::Duration;

use anstream::stream::RawStream;
use anstream::{AutoStream, ColorChoice};

use crate::sink::{Line, LineEnd, Sink, Stream};

/// What is gathered before it is written, when lines come faster than they can be shown.
const GATHER_BYTES: usize = 64 << 10;

/// Writes `[2] text`: a rank's stdout to stdout, its stderr to stderr, the prefix coloured on a
/// terminal.
#[derive(Debug)]
pub struct Terminal {
    stdout: Target,
    stderr: Target,
}

#[derive(Debug)]
struct Target {
    file: File,
    colour: bool,
    gathered: Vec<u8>,
}

impl Terminal {
    /// Takes this process's stdout and stderr. Colours appear on a terminal that knows
    /// them, unless `NO_COLOR` is set; `CLICOLOR_FORCE` asks for them elsewhere, too.
    ///
    /// # Errors
    ///
    /// Fails when no descriptor is left.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            stdout: Target::new(&io::stdout())?,
            stderr: Target::new(&io::stderr())?,
        })
    }
}

impl Sink for Terminal {
    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        let (target, other) = match line.stream {
            Stream::Stdout => (&mut self.stdout, &mut self.stderr),
            Stream::Stderr => (&mut self.stderr, &mut self.stdout),
        };
        // Both may be the same terminal: keep the order in which the lines came.
        other.flush()?;
        target.gather(line);
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
}

impl Target {
    /// Bypasses the standard library's line buffer: lines arrive whole, and a partial write must
    /// not be forgotten.
    fn new<S: AsFd + RawStream>(of: &S) -> io::Result<Self> {
        let colour = AutoStream::choice(of) != ColorChoice::Never;
        let file = File::from(of.as_fd().try_clone_to_owned()?);
        Ok(Self {
            file,
            colour,
            gathered: Vec::new(),
        })
    }

    fn gather(&mut self, line: Line<'_>) {
        let rank = line.rank;
        if self.colour {
            // Six colours readable on dark and light backgrounds.
            self.gathered
                .extend_from_slice(format!("\x1b[3{}m[{rank}]\x1b[0m ", 1 + rank % 6).as_bytes());
        } else {
            self.gathered
                .extend_from_slice(format!("[{rank}] ").as_bytes());
        }
        self.gathered.extend_from_slice(line.bytes);
        if line.end == LineEnd::Limit {
            self.gathered
                .extend_from_slice(b" [comm-run: this line goes on]");
        }
        self.gathered.push(b'\n');
    }

    fn flush(&mut self) -> io::Result<()> {
        write_fully(&mut self.file, &self.gathered)?;
        self.gathered.clear();
        self.gathered.shrink_to(GATHER_BYTES);
        Ok(())
    }
}

/// Writes everything, also to a terminal that another program has set to non-blocking.
fn write_fully(file: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => sleep(Duration::from_millis(2)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
