//! A sink that also writes every rank's streams to files of their own.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sink::{Line, LineEnd, Sink, Stream};

/// Writes what each rank writes, byte for byte, to `rank-N.out` and `rank-N.err` in a folder, and
/// passes the lines on.
#[derive(Debug)]
pub struct Logs<S> {
    first_rank: usize,
    /// Two per rank: out, err.
    files: Vec<Log>,
    /// Whether they hold only what these ranks wrote.
    fresh: bool,
    next: S,
}

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: BufWriter<File>,
}

impl<S: Sink> Logs<S> {
    /// Creates the folder and the files of `ranks` ranks from `first_rank` on. Old ones are emptied when the ranks have
    /// started: a job that cannot start does not cost the logs of the last one.
    ///
    /// # Errors
    ///
    /// Fails when a folder or a file cannot be written, and names it.
    pub fn create(folder: &Path, first_rank: usize, ranks: usize, next: S) -> io::Result<Self> {
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        let mut files = Vec::with_capacity(2 * ranks);
        for rank in first_rank..first_rank + ranks {
            for ending in ["out", "err"] {
                let path = folder.join(format!("rank-{rank}.{ending}"));
                let mut open = File::options();
                let open = open.write(true).create(true).truncate(false);
                let file = open.open(&path).map_err(|error| named(&path, &error))?;
                let file = BufWriter::new(file);
                files.push(Log { path, file });
            }
        }
        Ok(Self {
            first_rank,
            files,
            fresh: false,
            next,
        })
    }
}

impl<S: Sink> Sink for Logs<S> {
    fn started(&mut self) -> io::Result<()> {
        if !std::mem::replace(&mut self.fresh, true) {
            for Log { path, file } in &self.files {
                emptied(file.get_ref()).map_err(|error| named(path, &error))?;
            }
        }
        self.next.started()
    }

    fn patience(&self, stream: Stream) -> Option<Duration> {
        self.next.patience(stream)
    }

    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        let index = 2 * (line.rank - self.first_rank) + usize::from(line.stream == Stream::Stderr);
        let Log { path, file } = &mut self.files[index];
        let end: &[u8] = match line.end {
            LineEnd::Newline => b"\n",
            LineEnd::Missing | LineEnd::Limit | LineEnd::Open => b"",
        };
        let written = file
            .write_all(line.bytes)
            .and_then(|()| file.write_all(end));
        written.map_err(|error| named(path, &error))?;
        self.next.line(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        for Log { path, file } in &mut self.files {
            if !file.buffer().is_empty() {
                file.flush().map_err(|error| named(path, &error))?;
            }
        }
        self.next.flush()
    }
}

/// Empties a file. Other things that a path may name (a pipe, `/dev/null`) hold nothing.
fn emptied(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
