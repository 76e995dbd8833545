//! Liveness by locks, where there is no `/proc`.
//!
//! Each rank locks a file of its own for as long as it lives; the others open it while the job
//! starts, after which it loses its name. Whoever gets the lock knows that its owner is gone. The
//! kernel releases it later than `/proc` shows a death, once the memory of the process is freed,
//! and a child that was forked and did not execute anything keeps it.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::liveness::process::Process;
use crate::segment::name::{is_free, is_named, lock, open_private};

/// The files that the ranks of one segment have locked.
#[derive(Debug)]
pub(crate) struct Peers {
    /// None for a rank that is a thread of this process: it leaves by dropping its communicator.
    ranks: Vec<Option<File>>,
}

impl Peers {
    /// Finds the ranks of a segment, all of which have come.
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
    /// Takes the lock of `rank`; what a dead job left under its name is used again.
    pub(crate) fn start(segment: &Path, rank: usize) -> io::Result<Self> {
        let path = path(segment, rank);
        loop {
            let file = open_private(&path, OFlags::CREATE)?;
            lock(&file)?;
            // It may have lost its name before it was locked.
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

/// Checks whether the process that took the seat of a rank has ended, while the job starts: it locked its
/// file before.
pub(crate) fn has_left(segment: &Path, rank: usize, process: Process) -> bool {
    let other = process.pid != 0 && process.pid != std::process::id();
    other && open_private(&path(segment, rank), OFlags::empty()).is_ok_and(|file| is_free(&file))
}

/// Returns nothing: a pid does not tell.
pub(crate) fn has_ended(_: Process) -> Option<bool> {
    None
}

fn path(segment: &Path, rank: usize) -> PathBuf {
    let mut name = segment.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{rank}"));
    segment.with_file_name(name)
}
