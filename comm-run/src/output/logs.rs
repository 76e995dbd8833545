//! A sink that writes each stream of each rank to its own file.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::output::write::LateFile;
use crate::output::{Line, LineEnd, Sink, Stream};

/// Writes the output of each rank, byte for byte, to `rank-N.out` and `rank-N.err` in a folder: for
/// [`Job::add_sink`](crate::Job::add_sink).
#[derive(Debug)]
pub struct Logs {
    first_rank: usize,
    /// Two per rank: out, err.
    files: Vec<BufWriter<LateFile>>,
}

impl Logs {
    /// Creates the folder and the files of `ranks` ranks from `first_rank` on. Old files are emptied only when the ranks have
    /// started, so a job that cannot start keeps the logs of the last one.
    ///
    /// # Errors
    ///
    /// Fails when the folder or a file cannot be written; the error names it.
    pub fn create(folder: &Path, first_rank: usize, ranks: usize) -> io::Result<Self> {
        fs::create_dir_all(folder).map_err(|error| named(folder, &error))?;
        let mut files = Vec::with_capacity(2 * ranks);
        for rank in first_rank..first_rank + ranks {
            for ending in ["out", "err"] {
                let path = folder.join(format!("rank-{rank}.{ending}"));
                let file = LateFile::create(&path, false).map_err(|error| named(&path, &error))?;
                files.push(BufWriter::new(file));
            }
        }
        Ok(Self { first_rank, files })
    }
}

impl Sink for Logs {
    fn started(&mut self) -> io::Result<()> {
        for file in self.files.iter_mut().map(BufWriter::get_mut) {
            let emptied = file.opened().and_then(|file| emptied(file));
            emptied.map_err(|error| named(file.path(), &error))?;
        }
        Ok(())
    }

    fn line(&mut self, line: Line<'_>) -> io::Result<()> {
        let index = 2 * (line.rank - self.first_rank) + usize::from(line.stream == Stream::Stderr);
        let file = &mut self.files[index];
        let end: &[u8] = match line.end {
            LineEnd::Newline => b"\n",
            LineEnd::Missing | LineEnd::Limit | LineEnd::Open => b"",
        };
        let written = file
            .write_all(line.bytes)
            .and_then(|()| file.write_all(end));
        written.map_err(|error| named(file.get_ref().path(), &error))
    }

    fn flush(&mut self) -> io::Result<()> {
        for file in &mut self.files {
            if !file.buffer().is_empty() {
                let flushed = file.flush();
                flushed.map_err(|error| named(file.get_ref().path(), &error))?;
            }
        }
        Ok(())
    }
}

/// Empties a regular file. Pipes and devices such as `/dev/null` have no content.
fn emptied(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    Ok(())
}

fn named(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
