//! Liveness by locks, where there is no `/proc`.
//!
//! Each rank locks a file of its own for as long as it lives. The other ranks open the file while the job
//! starts, after which its name is removed. A rank that gets the lock knows that the owner is gone. The
//! kernel releases the lock later than `/proc` shows a death, once the memory of the process is freed, and a
//! forked child that has not executed a program keeps it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::liveness::process::Process;
use crate::segment::name::{is_free, is_named, lock, open_private};

/// The files that the ranks of one segment have locked.
#[derive(Debug)]
pub(crate) struct Peers {
    /// None for a rank that is a thread of this process: such a rank leaves by dropping its communicator.
    ranks: Vec<Option<File>>,
}

impl Peers {
    /// Finds the ranks of a segment, all of which have attached.
    pub(crate) fn find(segment: &Path, ranks: Vec<Process>) -> io::Result<Self> {
        let own = std::process::id();
        let open = |(rank, process): (usize, Process)| {
            let here = process.pid == own || process.pid == 0;
            let file = (!here).then(|| open_private(&path(segment, rank), OFlags::empty()));
            file.transpose()
        };
        let ranks = ranks
            .into_iter()
            .enumerate()
            .map(open)
            .collect::<Result<_, _>>()?;
        Ok(Self { ranks })
    }

    pub(crate) fn dead(&self, rank: usize) -> bool {
        self.ranks[rank].as_ref().is_some_and(is_free)
    }
}

/// The lock that a rank holds as long as it lives.
#[derive(Debug)]
pub(crate) struct Alive {
    _file: File,
}

impl Alive {
    /// Takes the lock of `rank`; a file that a dead job left under the name is reused.
    pub(crate) fn start(segment: &Path, rank: usize) -> io::Result<Self> {
        let path = path(segment, rank);
        loop {
            let file = open_private(&path, OFlags::CREATE)?;
            lock(&file)?;
            // The file may have lost its name before it was locked.
            if is_named(&path, &file) {
                return Ok(Self { _file: file });
            }
        }
    }

    /// Removes the names by which the ranks found each other.
    pub(crate) fn hide(segment: &Path, size: usize) {
        for rank in 0..size {
            let _ = std::fs::remove_file(path(segment, rank));
        }
    }
}

/// Checks whether the process that took the seat of a rank has ended, while the job starts: the process had
/// locked its file before.
pub(crate) fn has_left(segment: &Path, rank: usize, process: Process) -> bool {
    let other = process.pid != 0 && process.pid != std::process::id();
    other && open_private(&path(segment, rank), OFlags::empty()).is_ok_and(|file| is_free(&file))
}

/// Returns nothing: a pid cannot answer that.
pub(crate) fn has_ended(_: Process) -> Option<bool> {
    None
}

fn path(segment: &Path, rank: usize) -> PathBuf {
    let mut name = segment.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{rank}"));
    segment.with_file_name(name)
}
