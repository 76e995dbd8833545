//! Liveness by `/proc`.
//!
//! The kernel frees the memory of a dying process long before it closes its files: the size in `/proc` is 0
//! within a millisecond, while a pidfd, a lock or a socket shows the death only once gigabytes have been
//! freed. So the size is checked, through a file that is bound to the process: a later process with the same
//! pid has another file, and another start time. A process that dumps core keeps its memory until the dump is
//! written, but will not continue: `/proc` shows that too. A main thread that ends before the others shows no
//! memory either, so then the other threads are checked.
//!
//! A pidfd is used where there is no `/proc`, or only that of another pid namespace.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::liveness::process::{Process, Stat, has_own_proc};

/// How many processes all communicators of this process watch at a time.
const MOST_WATCHES: usize = 16;

/// The kernel's flags of a process that is exiting: `PF_EXITING`, `PF_POSTCOREDUMP`, `PF_DUMPCORE`,
/// `PF_SIGNALED`. Only a hint for when to check for a core dump.
const LEAVING: u64 = 0x4 | 0x8 | 0x200 | 0x400;

/// The processes of the ranks of one segment.
#[derive(Debug)]
pub(crate) struct Peers {
    ranks: Vec<Process>,
}

impl Peers {
    /// Finds the ranks of a segment, all of which have attached.
    #[expect(clippy::unnecessary_wraps, reason = "liveness by locks can fail here")]
    pub(crate) fn find(_: &Path, ranks: Vec<Process>) -> io::Result<Self> {
        Ok(Self { ranks })
    }

    /// Checks whether the process of `rank` has ended. A rank that is a thread of this process has not: such
    /// a rank leaves by dropping its communicator.
    pub(crate) fn dead(&self, rank: usize) -> bool {
        let process = self.ranks[rank];
        is_other(process) && watches(|watches| watches.look(process)) == Some(true)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        // If another wait needs one of them, it is opened again.
        watches(|watches| watches.close(&self.ranks));
    }
}

/// What a rank holds as long as it lives: nothing, because the kernel knows.
#[derive(Debug)]
pub(crate) struct Alive;

impl Alive {
    #[expect(clippy::unnecessary_wraps, reason = "liveness by locks can fail here")]
    pub(crate) fn start(_: &Path, _: usize) -> io::Result<Self> {
        Ok(Self)
    }

    /// Removes the names by which the ranks found each other.
    pub(crate) fn hide(_: &Path, _: usize) {}
}

/// Checks whether the process that took the seat of a rank has ended, while the job starts.
pub(crate) fn has_left(_: &Path, _: usize, process: Process) -> bool {
    is_other(process) && has_ended(process) == Some(true)
}

/// Returns whether a process has ended, by a single check; `None` if that cannot be determined now.
pub(crate) fn has_ended(process: Process) -> Option<bool> {
    match Watch::open(process) {
        Ok(watch) => watch.ended(),
        Err(error) => gone(error),
    }
}

fn is_other(process: Process) -> bool {
    process.pid != 0 && process.pid != std::process::id()
}

/// Returns what an error says about the requested process.
fn gone(error: Errno) -> Option<bool> {
    (error == Errno::SRCH).then_some(true)
}

/// The open watches, the least recently used first.
#[derive(Debug)]
struct Watches(Vec<Watch>);

fn watches<T>(work: impl FnOnce(&mut Watches) -> T) -> T {
    static WATCHES: Mutex<Watches> = Mutex::new(Watches(Vec::new()));
    work(&mut WATCHES.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Watches {
    /// Returns whether a process has ended; `None` if that cannot be determined now.
    fn look(&mut self, process: Process) -> Option<bool> {
        let known = self.0.iter().position(|watch| watch.process == process);
        let watch = match known {
            Some(index) => self.0.remove(index),
            None => match self.open(process) {
                Ok(watch) => watch,
                Err(error) => return gone(error),
            },
        };
        let ended = watch.ended();
        if ended == Some(false) {
            self.0.push(watch);
        }
        ended
    }

    /// Opens one more watch, and closes others if necessary.
    fn open(&mut self, process: Process) -> rustix::io::Result<Watch> {
        if self.0.len() >= MOST_WATCHES {
            self.0.remove(0);
        }
        loop {
            match Watch::open(process) {
                Err(Errno::MFILE | Errno::NFILE) if !self.0.is_empty() => {
                    self.0.remove(0);
                }
                opened => return opened,
            }
        }
    }

    fn close(&mut self, processes: &[Process]) {
        self.0.retain(|watch| !processes.contains(&watch.process));
        if self.0.is_empty() {
            self.0 = Vec::new();
        }
    }
}

/// Watches one process, to see whether it has ended.
#[derive(Debug)]
struct Watch {
    process: Process,
    by: By,
}

#[derive(Debug)]
enum By {
    /// What the kernel shows of the process.
    Stat(File),
    /// A descriptor that becomes readable when the process ends.
    Handle(OwnedFd),
}

impl Watch {
    /// Opens a watch.
    ///
    /// # Errors
    ///
    /// `SRCH` if there is no such process; any other error means that this rank could not check.
    fn open(process: Process) -> rustix::io::Result<Self> {
        let shown = has_own_proc();
        let stat = shown.then(|| open_shown(process, "stat"));
        let by = match stat {
            Some(Ok(stat)) => By::Stat(stat),
            // A missing entry in `/proc` is no proof: `/proc` may hide processes that this one may not trace.
            _ => By::Handle(handle(process.pid)?),
        };
        Ok(Self { process, by })
    }

    fn ended(&self) -> Option<bool> {
        match &self.by {
            By::Stat(file) => {
                let stat = match read_stat(file) {
                    Ok(stat) => stat?,
                    Err(error) => return gone(error),
                };
                let Process { start, .. } = self.process;
                if start != 0 && stat.start != start {
                    return Some(true);
                }
                if stat.bytes == 0 {
                    return match stat.threads {
                        0 | 1 => Some(true),
                        _ => self.has_memory().map(|lives| !lives),
                    };
                }
                Some(stat.flags & LEAVING != 0 && self.dumps_core())
            }
            By::Handle(handle) => Some(is_readable(handle)),
        }
    }

    /// Checks whether a thread of the process has memory although the main thread has ended: the main thread
    /// may have ended alone. `None` if that cannot be determined now.
    #[cold]
    fn has_memory(&self) -> Option<bool> {
        // A missing entry in `/proc` is no proof here either.
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.pid)).ok()?;
        let threads = threads.map(|thread| Some(thread.ok()?.path()));
        let threads: Vec<PathBuf> = threads.collect::<Option<_>>()?;
        let count = || match &self.by {
            By::Stat(file) => Some(read_stat(file).ok()??.threads),
            By::Handle(_) => None,
        };
        any_has_memory(&threads, count, |thread| {
            let stat = read_stat(&open(&thread.join("stat")).ok()?).ok()??;
            Some(stat.bytes != 0)
        })
    }

    /// Checks whether the process dumps core.
    fn dumps_core(&self) -> bool {
        let mut status = Vec::new();
        let read = open_shown(self.process, "status")
            .is_ok_and(|mut file| file.read_to_end(&mut status).is_ok());
        let mut lines = status.split(|&byte| byte == b'\n');
        read && lines.any(|line| {
            let value = line.strip_prefix(b"CoreDumping:");
            value.is_some_and(|value| value.trim_ascii() == b"1")
        })
    }
}

/// Checks whether one of the threads of a process has memory. `None` if that cannot be determined now.
///
/// A list may lack a thread: one whose creator ended while the kernel built the list. So the process counts
/// as dead only if it has no more threads than the list, counted while all of the listed threads existed
/// without memory.
fn any_has_memory(
    listed: &[PathBuf],
    count: impl FnOnce() -> Option<u64>,
    has_memory: impl Fn(&Path) -> Option<bool>,
) -> Option<bool> {
    let any = || {
        for thread in listed {
            if has_memory(thread)? {
                return Some(true);
            }
        }
        Some(false)
    };
    if any()? {
        return Some(true);
    }
    let complete = count()? == listed.len() as u64;
    (!any()? && complete).then_some(false)
}

fn open_shown(process: Process, what: &str) -> rustix::io::Result<File> {
    open(format!("/proc/{}/{what}", process.pid).as_ref())
}

fn open(path: &Path) -> rustix::io::Result<File> {
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(file.into())
}

/// Reads what a file shows; `None` if the kernel does not write such content.
fn read_stat(file: &File) -> rustix::io::Result<Option<Stat>> {
    let mut bytes = [0; 1024];
    let length = file.read_at(&mut bytes, 0);
    let length = length.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(Stat::parse(&bytes[..length]))
}

fn handle(pid: u32) -> rustix::io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open, test_kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or(Errno::SRCH)?;
    pidfd_open(pid, PidfdFlags::empty()).map_err(|error| match test_kill_process(pid) {
        // Kernels before 5.3, and filters of containers, do not know pidfds. No process has the pid all the
        // same.
        Err(Errno::SRCH) => Errno::SRCH,
        _ => error,
    })
}

fn is_readable(handle: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(handle, PollFlags::IN)];
    matches!(poll(&mut ready, Some(&Timespec::default())), Ok(n) if n > 0)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The second thread ends; what matters is whether it started another one before.
    #[test]
    fn a_thread_that_starts_another_and_ends_does_not_end_the_process() {
        let listed = ["1", "2"].map(PathBuf::from);
        let looks = Cell::new(0);
        let judge = |count, reaped_after| {
            looks.set(0);
            any_has_memory(
                &listed,
                || Some(count),
                |_| {
                    looks.update(|looks| looks + 1);
                    (looks.get() <= reaped_after).then_some(false)
                },
            )
        };
        assert_eq!(judge(2, 4), Some(false));
        assert_eq!(judge(3, 4), None, "the list lacks one");
        assert_eq!(judge(2, 3), None, "another one was counted in its place");
        assert_eq!(judge(2, 1), None, "it may have started another one");
        let second_lives = |thread: &Path| Some(thread.ends_with("2"));
        assert_eq!(any_has_memory(&listed, || None, second_lives), Some(true));
        assert_eq!(any_has_memory(&listed, || None, |_| Some(false)), None);
    }
}
