//! A file of the user's choice, opened without waiting.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

/// A file to write to. A pipe that nobody has opened for reading is opened by the first write, which waits for that: call it where
/// nothing else waits.
#[doc(hidden)]
#[derive(Debug)]
pub struct LateFile {
    path: PathBuf,
    options: OpenOptions,
    file: Option<File>,
}

impl LateFile {
    /// Opens a file for writing, and creates it if it is not there.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn create(path: &Path, append: bool) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true).append(append).create(true);
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        let is_pipe = || std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo());
        let file = match options.clone().custom_flags(flags).open(path) {
            Ok(file) => {
                // Writes wait again: their thread may.
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

    /// Returns the open file. Waits for a reader if it is a pipe without.
    ///
    /// # Errors
    ///
    /// The system's.
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
