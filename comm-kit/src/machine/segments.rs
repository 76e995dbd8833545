//! Where segments of shared memory have their names, and which of them are stale.
//!
//! The creator of a segment locks it before giving it a name, and removes the name once all ranks have
//! attached. A segment with a name and without a lock was therefore left by a job that was killed during its
//! start. Only the holder of the lock removes the name.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};

/// The magic bytes at the beginning of every segment.
pub const MAGIC: [u8; 8] = *b"cobreshm";

/// Returns the folder in which segments are created.
#[must_use]
pub fn folder() -> PathBuf {
    if cfg!(target_os = "linux") {
        PathBuf::from("/dev/shm")
    } else {
        std::env::temp_dir()
    }
}

/// Removes from `folder` what jobs of this user left when they were killed during their start, under names
/// that begin with `prefix`. Returns the removed names.
///
/// Files that are not segments are kept, and so are those of a job that is starting.
#[must_use]
pub fn remove_stale(folder: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    // Segments first. The content of a file decides, because the name of a segment may end like that of a
    // lock.
    let (mut removed, others): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| remove_if_free(&folder.join(name), is_segment));
    removed.extend(others.into_iter().filter(|name| {
        // A rank creates its lock only while the segment has a name.
        let is_over = segment_of(name).is_some_and(|segment| !folder.join(segment).exists());
        let is_empty = |file: &File| file.metadata().is_ok_and(|metadata| metadata.len() == 0);
        is_over && remove_if_free(&folder.join(name), is_empty)
    }));
    removed.sort();
    removed
}

fn is_segment(file: &File) -> bool {
    let mut start = MAGIC.map(|_| 0);
    file.read_exact_at(&mut start, 0).is_ok() && start == MAGIC
}

/// Returns the name of the segment that the lock file `name.RANK` of a rank belongs to.
fn segment_of(name: &str) -> Option<&str> {
    let (segment, rank) = name.rsplit_once('.')?;
    let is_rank = !rank.is_empty() && rank.bytes().all(|byte| byte.is_ascii_digit());
    is_rank.then_some(segment)
}

/// Returns whether `path` is a name of an open file. While the caller holds the lock on the file, the answer
/// stays valid: no other process removes the name or puts another file under it.
///
/// It is not enough that the file still has some name: `path` may be that of a later job.
#[must_use]
pub fn is_named(path: &Path, file: &File) -> bool {
    let (Ok(found), Ok(own)) = (fs::symlink_metadata(path), file.metadata()) else {
        return false;
    };
    (found.dev(), found.ino()) == (own.dev(), own.ino())
}

/// Removes the name of a file of this user that is `wanted` and not locked.
fn remove_if_free(path: &Path, wanted: impl FnOnce(&File) -> bool) -> bool {
    // Without NONBLOCK, opening a FIFO would wait for its other end.
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
        return false;
    };
    let file = File::from(file);
    let user = rustix::process::geteuid().as_raw();
    let is_ours = |file: &File| {
        let metadata = file.metadata();
        metadata.is_ok_and(|metadata| metadata.is_file() && metadata.uid() == user)
    };
    is_ours(&file)
        && wanted(&file)
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        && is_named(path, &file)
        && fs::remove_file(path).is_ok()
}
