//! Which process may use a communicator: the one that created it, not a forked child.
//!
//! # Safety
//!
//! - **I1** The page is mapped once, readable and writable, and never unmapped.
//! - **I2** The page is accessed only as the two `AtomicU64` at its start, which are aligned because a page
//!   is.
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

    /// Returns whether this is the marked process. Costs one load where the system can empty a page on fork,
    /// and a system call elsewhere.
    #[inline]
    #[must_use]
    pub fn is_here(self) -> bool {
        mark::get() == self.pid
    }

    /// Rejects every process other than the marked one.
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
    /// In every process other than the marked one; the message says what to do.
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

/// A word by which other processes recognise the memory of this process. A process that reads `word` at
/// `address` of a pid reads the memory of the process that published it, not of a later process with the same
/// pid, of another program that the process executed, or of a forked child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beacon {
    /// The address of the word.
    pub address: u64,
    /// The value of the word: a random number, never 0.
    pub word: u64,
}

impl Beacon {
    /// Returns the beacon of this process; `None` where the system cannot empty a page on fork.
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

    /// One page for the whole process, holding the pid of its owner and the word of its beacon; `None` if the
    /// system cannot empty it on fork.
    static PAGE: OnceLock<Option<&'static [AtomicU64; 2]>> = OnceLock::new();

    pub(super) fn set(pid: u64) {
        // Relaxed: passing an `Owner` to another thread synchronises.
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
        // Includes the time, because a forked child inherits the keys of its parent.
        let random = RandomState::new().hash_one((std::process::id(), SystemTime::now())) | 1;
        // If another thread was first, the published word stays.
        let found = beacon.compare_exchange(0, random, Ordering::Relaxed, Ordering::Relaxed);
        Some(Beacon {
            address: std::ptr::from_ref(beacon).expose_provenance() as u64,
            word: found.err().unwrap_or(random),
        })
    }

    fn page() -> Option<&'static [AtomicU64; 2]> {
        // The system rounds the length up to a page. Asking for the page size would read the auxiliary
        // vector, which some instrumentation tools modify.
        let len = size_of::<[AtomicU64; 2]>();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: no address is requested, so no existing mapping is replaced.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }.ok()?;
        // SAFETY: I1, the page was mapped just above; the advice changes nothing in this process.
        unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
        let page = page.cast::<[AtomicU64; 2]>();
        // SAFETY: I1 and I2: valid for the whole life of the process, aligned, zeroed, and accessed in no
        // other way.
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
