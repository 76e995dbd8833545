//! The name of a job's segment, which goes with the job.
//!
//! The ranks remove the name once all have come. Ranks that are ended before that, all at once,
//! leave it, and with it a megabyte of memory per rank. Nobody else can have the name, since it is
//! new and cannot be guessed, so it is removed without a look at who holds it.

use std::path::{Path, PathBuf};

use comm_kit::segments;

/// The names that the ranks of one job may leave: `name`, and `name.` with something behind.
#[derive(Debug)]
pub(crate) struct Segment {
    path: PathBuf,
}

impl Segment {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            path: segments::folder().join(name),
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes what is left, once no rank can create it again.
    pub(crate) fn remove(&self) {
        // A name that is not there is as it should be; one that cannot be removed would not be
        // removed by a second try either.
        let _ = std::fs::remove_file(&self.path);
        let (Some(folder), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let is_beside = |found: &[u8]| {
            let rest = found.strip_prefix(name.as_encoded_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"."))
        };
        let entries = std::fs::read_dir(folder).into_iter().flatten();
        for entry in entries.filter_map(Result::ok) {
            if is_beside(entry.file_name().as_encoded_bytes()) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
