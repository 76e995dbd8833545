//! Liveness by locks, where there is no `/proc`.
//!
//! Each rank locks a file of its own for as long as it lives; the others open it while the job
//! starts, after which it loses its name. Whoever gets the lock knows that its owner is gone. The
//! kernel releases it later than `/proc` shows a death, once the memory of the process is freed,
//! and a child that was forked and did not execute anything keeps it.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};

use crate::name::{lock, open_private};
use crate::process::Process;

/// The files that the ranks of one segment have locked.
#[derive(Debug)]
pub(crate) struct Peers {
    /// None for a rank that is a thread of this process: it leaves by dropping its communicator.
    ranks: Vec<Option<File>>,
}

impl Peers {
    /// Finds the ranks of a segment, all of which have come.
    pub(crate) fn find(segment: &Path, ranks: &[Process]) -> io::Result<Self> {
        let own = std::process::id();
        let open = |(rank, process): (usize, &Process)| {
            let here = process.pid == own || process.pid == 0;
            let file = (!here).then(|| open_private(&path(segment, rank), OFlags::empty()));
            file.transpose()
        };
        let ranks = ranks
            .iter()
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
            if file.metadata()?.nlink() > 0 {
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

/// Checks whether the process that created a segment has ended: it holds the lock of its file.
pub(crate) fn creator_ended(creator: Process, file: &File) -> bool {
    !creator.is_current() && is_free(file)
}

/// Checks that a segment whose lock is held keeps its name: rank 0 also holds the lock of a stale one,
/// for the moment in which it removes it.
pub(crate) fn is_settled(file: &File) -> bool {
    std::thread::sleep(REMOVAL);
    file.metadata().is_ok_and(|metadata| metadata.nlink() > 0)
}

/// How long rank 0 may take between the lock of a stale segment and its removal.
const REMOVAL: Duration = Duration::from_millis(10);

fn is_free(file: &File) -> bool {
    // Shared: others may look at the same time.
    let free = flock(file, FlockOperation::NonBlockingLockShared).is_ok();
    if free {
        let _ = flock(file, FlockOperation::Unlock);
    }
    free
}

fn path(segment: &Path, rank: usize) -> PathBuf {
    let mut name = segment.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{rank}"));
    segment.with_file_name(name)
}
