//! Who may use a communicator: the process that created it, not a child it forked.
//!
//! # Safety
//!
//! - **I1** The page is mapped once, readable and writable, and never unmapped.
//! - **I2** It is reached only as the one `AtomicU64` at its start, which is aligned, since a page is.
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
            Err(CommError::InvalidCommunicator)
        }
    }

    /// Permits an access to memory that a forked child would share with its parent.
    ///
    /// # Panics
    ///
    /// In every process but the one that was marked, saying what to do.
    #[inline]
    pub fn expect_here(self, operation: &str) {
        if !self.is_here() {
            forked(operation);
        }
    }
}

#[cold]
fn forked(operation: &str) -> ! {
    panic!(
        "{operation}: this process was forked from the rank that has the region, and would share its \
         part; use the region in that process, or copy what the child needs before the fork"
    )
}

#[cfg(target_os = "linux")]
mod mark {
    use std::sync::OnceLock;
    use std::sync::atomic::{AtomicU64, Ordering};

    use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

    /// One page for the whole process; `None` if the system cannot empty it on fork.
    static PAGE: OnceLock<Option<&'static AtomicU64>> = OnceLock::new();

    pub(super) fn set(pid: u64) {
        // Relaxed: whoever gets an `Owner` from another thread synchronised with it.
        if let Some(word) = PAGE.get_or_init(page) {
            word.store(pid, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn get() -> u64 {
        match PAGE.get() {
            Some(Some(word)) => word.load(Ordering::Relaxed),
            _ => std::process::id().into(),
        }
    }

    fn page() -> Option<&'static AtomicU64> {
        // The system rounds it up to a page. Asking for the page size would read the auxiliary
        // vector, which tools that instrument a program do not leave intact.
        let len = size_of::<AtomicU64>();
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: no address is asked for, so nothing that is mapped is replaced.
        let page = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, flags) }.ok()?;
        // SAFETY: I1, the page was mapped just above; the advice changes nothing in this process.
        unsafe { madvise(page, len, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: I1 and I2, valid for ever, aligned, zeroed, and reached by nothing else.
        Some(unsafe { AtomicU64::from_ptr(page.cast()) })
    }
}

#[cfg(not(target_os = "linux"))]
mod mark {
    pub(super) fn set(_: u64) {}

    #[inline]
    pub(super) fn get() -> u64 {
        std::process::id().into()
    }
}
