//! A notice board outside of the communicator under test: files in the directory of the job.
//!
//! Whatever one rank has posted, every rank can read from then on, independent of the communicator. That is
//! how the suite knows in which order things happened.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Holds the notices of one job.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    dir: PathBuf,
}

impl Board {
    /// Opens the board in `dir`, which exists.
    pub(crate) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Posts a notice; a rank that sees it sees all of it.
    pub(crate) fn post(&self, key: &str, value: &str) -> io::Result<()> {
        let draft = self.dir.join(format!(".{key}"));
        fs::write(&draft, value)?;
        fs::rename(draft, self.dir.join(key))
    }

    /// Reads a notice, if it is there.
    pub(crate) fn read(&self, key: &str) -> Option<String> {
        fs::read_to_string(self.dir.join(key)).ok()
    }

    /// Waits for a notice.
    pub(crate) fn wait(&self, key: &str, limit: Duration) -> io::Result<String> {
        let start = Instant::now();
        loop {
            if let Some(value) = self.read(key) {
                return Ok(value);
            }
            if start.elapsed() > limit {
                let message = format!("no rank posted '{key}' within {limit:?}");
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}
