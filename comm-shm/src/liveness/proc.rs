//! Liveness by `/proc`.
//!
//! The kernel takes the memory away from a dying process long before it closes its files: its size
//! in `/proc` is 0 within a millisecond, while a pidfd, a lock or a socket shows the death only once
//! gigabytes were freed. So the size is looked at, through a file that was opened while the
//! process lived: a later process of the same pid has another file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use crate::process::{Process, start_of};

/// The processes of the ranks of one segment.
#[derive(Debug)]
pub(crate) struct Peers {
    ranks: Vec<Peer>,
}

#[derive(Debug)]
struct Peer {
    process: Process,
    watch: OnceLock<Arc<Watch>>,
}

impl Peers {
    /// Finds the ranks of a segment, each as far as it has come.
    #[expect(clippy::unnecessary_wraps, reason = "liveness by locks can fail here")]
    pub(crate) fn find(_: &Path, ranks: &[Process]) -> io::Result<Self> {
        let ranks = ranks.iter().map(|&process| Peer {
            process,
            watch: OnceLock::new(),
        });
        Ok(Self {
            ranks: ranks.collect(),
        })
    }

    /// Checks whether the process of `rank` came and has ended. A rank that is a thread of this process has
    /// not: it leaves by dropping its communicator.
    pub(crate) fn dead(&self, rank: usize) -> bool {
        let Peer { process, watch } = &self.ranks[rank];
        let other = process.pid != 0 && process.pid != std::process::id();
        other && watch.get_or_init(|| Watch::on(*process)).ended()
    }
}

/// What a rank keeps as long as it lives: nothing, the kernel knows.
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

/// Who holds the lock of a segment does not matter here: its creator is looked up.
pub(crate) fn is_settled(_: &File) -> bool {
    true
}

/// Checks whether the process that created a segment has ended.
pub(crate) fn creator_ended(creator: Process, _: &File) -> bool {
    !creator.is_current() && Watch::on(creator).ended()
}

/// A way to see whether one process has ended; shared by all communicators of this one, so descriptors do not add up.
#[derive(Debug)]
enum Watch {
    /// Its size in memory.
    Size(File),
    /// A descriptor that becomes readable when it ends, where there is no `/proc`.
    Handle(OwnedFd),
    /// It had ended before anybody looked.
    Ended,
}

static WATCHES: Mutex<BTreeMap<(u32, u64), Weak<Watch>>> = Mutex::new(BTreeMap::new());

impl Watch {
    fn on(process: Process) -> Arc<Self> {
        let mut watches = WATCHES.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (process.pid, process.start);
        if let Some(watch) = watches.get(&key).and_then(Weak::upgrade) {
            return watch;
        }
        watches.retain(|_, watch| watch.strong_count() > 0);
        let watch = Arc::new(Self::open(process));
        watches.insert(key, Arc::downgrade(&watch));
        watch
    }

    /// Opens first and compares the start after: what was opened cannot change hands any more.
    fn open(process: Process) -> Self {
        let Process { pid, start, .. } = process;
        let watch = match File::open(format!("/proc/{pid}/statm")) {
            Ok(statm) => Self::Size(statm),
            Err(_) => match handle(pid) {
                Ok(handle) => Self::Handle(handle),
                Err(_) => return Self::Ended,
            },
        };
        match start_of(pid) {
            Some(found) if start != 0 && found != start => Self::Ended,
            _ => watch,
        }
    }

    fn ended(&self) -> bool {
        match self {
            Self::Size(statm) => {
                let mut first = [0; 2];
                // No process: an error, or nothing to read. A process without memory: size 0.
                !matches!(statm.read_at(&mut first, 0), Ok(2)) || first == *b"0 "
            }
            Self::Handle(handle) => is_readable(handle),
            Self::Ended => true,
        }
    }
}

fn handle(pid: u32) -> rustix::io::Result<OwnedFd> {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    pidfd_open(pid.ok_or(rustix::io::Errno::SRCH)?, PidfdFlags::empty())
}

fn is_readable(handle: &OwnedFd) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ready = [PollFd::new(handle, PollFlags::IN)];
    matches!(poll(&mut ready, Some(&Timespec::default())), Ok(n) if n > 0)
}
