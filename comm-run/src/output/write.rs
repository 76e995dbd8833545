//! Writes to any file that a user names: it may have no reader yet, or no room.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// As much as a pipe takes without blocking once it reports that it has room.
const PIECE: usize = 4 << 10;

/// Writes everything. Waits for room in a terminal or pipe, even if another program has made it non-blocking.
///
/// # Errors
///
/// Fails when the reader is gone, or with [`TimedOut`](io::ErrorKind::TimedOut) if it takes longer than
/// `patience`; `None` means no limit.
#[doc(hidden)]
pub fn write_fully(to: impl AsFd, mut bytes: &[u8], patience: Option<Duration>) -> io::Result<()> {
    let until = patience.map(|patience| Instant::now() + patience);
    while !bytes.is_empty() {
        let mut piece = bytes;
        if let Some(until) = until {
            // A write to a full blocking pipe cannot be abandoned; a small write to a pipe with room does not block.
            wait_for_room(&to, Some(until))?;
            piece = &bytes[..bytes.len().min(PIECE)];
        }
        match rustix::io::write(&to, piece) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for_room(&to, until)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_for_room(to: &impl AsFd, until: Option<Instant>) -> io::Result<()> {
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        // A time that the system cannot express counts as no limit.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut [PollFd::new(to, PollFlags::OUT)], left.as_ref()) {
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            // The write reports an error of the descriptor.
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file to write to. The first write opens a named pipe that has no reader yet, and waits for one: write on a thread that
/// may wait.
#[doc(hidden)]
#[derive(Debug)]
pub struct LateFile {
    path: PathBuf,
    options: OpenOptions,
    file: Option<File>,
}

impl LateFile {
    /// Opens a file for writing, and creates it if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails when the system cannot open or create the file.
    pub fn create(path: &Path, append: bool) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true).append(append).create(true);
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let is_pipe = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        let file = match options.clone().custom_flags(flags).open(path) {
            Ok(file) => {
                // Make writes block again: their thread may wait.
                fcntl_setfl(&file, fcntl_getfl(&file)? & !OFlags::NONBLOCK)?;
                Some(file)
            }
            Err(error) if Errno::from_io_error(&error) == Some(Errno::NXIO) && is_pipe() => None,
            Err(error) => return Err(error),
        };
        Ok(Self {
            path: path.to_owned(),
            options,
            file,
        })
    }

    /// Returns the open file. Waits for a reader if it is a pipe without one.
    ///
    /// # Errors
    ///
    /// Fails when the system cannot open the file.
    pub fn opened(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => self.options.open(&self.path)?,
        };
        Ok(self.file.insert(file))
    }

    /// Returns its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Write for LateFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.opened()?.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};
    use std::time::Duration;

    use rustix::fs::{OFlags, fcntl_setfl};

    use super::write_fully;

    #[test]
    fn a_full_pipe_is_waited_for_and_no_longer_than_asked() {
        let long = vec![b'x'; 1 << 20];
        for flags in [OFlags::empty(), OFlags::NONBLOCK] {
            let (mut reader, writer) = io::pipe().unwrap();
            fcntl_setfl(&writer, flags).unwrap();
            let error = write_fully(&writer, &long, Some(Duration::from_millis(20))).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            let taker = std::thread::spawn(move || {
                let mut all = Vec::new();
                reader.read_to_end(&mut all).map(|_| all.len())
            });
            write_fully(&writer, &long, None).unwrap();
            write_fully(&writer, &long, Some(Duration::from_mins(1))).unwrap();
            drop(writer);
            assert!(taker.join().unwrap().unwrap() >= 2 * long.len());
        }
    }

    #[test]
    fn a_reader_that_is_gone_is_an_error() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        for patience in [None, Some(Duration::from_mins(1))] {
            let error = write_fully(&writer, b"x", patience).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
