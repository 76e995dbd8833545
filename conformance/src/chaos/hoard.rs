//! Uses up all file descriptors.

use std::fs::File;
use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Holds all file descriptors that this process may open; they are free again when it is dropped.
#[derive(Debug)]
pub(super) struct Hoard {
    files: Vec<File>,
    before: Rlimit,
}

/// How many descriptors the process may have meanwhile: fewer than the usual limit are used up faster.
const LIMIT: u64 = 256;

impl Hoard {
    /// Uses up all descriptors.
    pub(super) fn new() -> io::Result<Self> {
        let before = getrlimit(Resource::Nofile);
        let current = before.current.map_or(LIMIT, |current| current.min(LIMIT));
        let lowered = Rlimit {
            current: Some(current),
            maximum: before.maximum,
        };
        setrlimit(Resource::Nofile, lowered)?;
        let mut hoard = Self {
            files: Vec::new(),
            before,
        };
        while let Ok(file) = File::open("/dev/null") {
            hoard.files.push(file);
        }
        Ok(hoard)
    }
}

impl Drop for Hoard {
    fn drop(&mut self) {
        self.files.clear();
        // The limit was permitted before.
        let _ = setrlimit(Resource::Nofile, self.before);
    }
}
