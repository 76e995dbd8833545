//! Who may use a communicator: the process that created it, not a child it forked.
//!
//! # Safety
//!
//! - **I1** The page is mapped once, readable and writable, and never unmapped.
//! - **I2** It is reached only as the two `AtomicU64` at its start, which are aligned, since a page is.
#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "a page that the kernel empties in a forked child"
    )
)]

use comm_api::CommError;

/// Marks the process that created a communicator; a forked child does not find the mark.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pid: u64,
}

impl Owner {
    /// Marks this process.
    #[must_use]
    pub fn mark() -> Self {
        let pid = std::process::id().into();
        mark::set(pid);
        Self { pid }
    }

    /// Returns whether this is the process that was marked: one load where the system can empty a
    /// page on fork, a system call where it cannot.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        mark::get() == self.pid
    }

    /// Refuses every process but the one that was marked.
    ///
    /// # Errors
    ///
    /// [`CommError::InvalidCommunicator`] in a forked child.
    #[inline]
    pub fn check(self) -> Result<(), CommError> {
        if self.is_here() {
            Ok(())
        } else {
            Err(CommError::invalid_communicator())
        }
    }

    /// Permits an access to memory that a forked child would share with its parent.
    ///
    /// # Panics
    ///
    /// In every process but the one that was marked, saying what to do.
    #[inline]
    #[track_caller]
    pub fn expect_here(self, operation: &str) {
        if !self.is_here() {
            forked(operation);
        }
    }
}

#[cold]
#[track_caller]
fn forked(operation: &str) -> ! {
    panic!(
        "{operation}: this process was forked from the rank that has the region, and would share its \
         part; use the region in that process, or copy what the child needs before the fork"
    )
}

/// A word by which other processes recognise the memory of this one: whoever reads `word` at `address` of a process reads
/// the memory of the process that published it, not that of a later process of the same pid, of another
/// program that it executed, or of a child that it forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// Where the word lies.
    pub address: u64,
    /// What lies there: a random number, never 0.
    pub word: u64,
}

impl Beacon {
    /// Returns that of this process; `None` where the system cannot empty a page on fork.
    #[must_use]
    pub fn here() -> Option<Self> {
        mark::beacon()
    }
}

#[cfg(target_os = "linux")]
mod mark {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::SystemTime;

    use super::Beacon;

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    /// One page for the whole process, the pid of its owner and the word of its beacon; `None` if the system cannot empty
    /// it on fork.
    static PAGE: OnceLock<Option<&'static [AtomicU64; 2]>> = OnceLock::new();

    pub(super) fn set(pid: u64) {
        // Relaxed: whoever gets an `Owner` from another thread synchronised with it.
        if let Some([owner, _]) = PAGE.get_or_init(page) {
            owner.store(pid, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn get() -> u64 {
        match PAGE.get() {
            Some(Some([owner, _])) => owner.load(Ordering::Relaxed),
            _ => std::process::id().into(),
        }
    }

    pub(super) fn beacon() -> Option<Beacon> {
        let [_, beacon] = PAGE.get_or_init(page).as_ref()?;
        // The time, because a forked child has the keys of its parent.
        let random = RandomState::new().hash_one((std::process::id(), SystemTime::now())) | 1;
        // Another thread may have been first, and what was published stays.
        let found = beacon.compare_exchange(0, random, Ordering::Relaxed, Ordering::Relaxed);
        Some(Beacon {
            address: std::ptr::from_ref(beacon).expose_provenance() as u64,
            word: found.err().unwrap_or(random),
        })
    }

    fn page() -> Option<&'static [AtomicU64; 2]> {
        // The system rounds it up to a page. Asking for the page size would read the auxiliary
        // vector, which tools that instrument a program do not leave intact.
        let len = size_of::<[AtomicU64; 2]>();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: no address is asked for, so nothing that is mapped is replaced.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }.ok()?;
        // SAFETY: I1, the page was mapped just above; the advice changes nothing in this process.
        unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
        let page = page.cast::<[AtomicU64; 2]>();
        // SAFETY: I1 and I2, valid for ever, aligned, zeroed, and reached by nothing else.
        Some(unsafe { &*page })
    }
}

#[cfg(not(target_os = "linux"))]
mod mark {
    pub(super) fn set(_: u64) {}

    pub(super) fn beacon() -> Option<super::Beacon> {
        None
    }

    #[inline]
    pub(super) fn get() -> u64 {
        std::process::id().into()
    }
}
