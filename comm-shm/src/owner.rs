//! Who may use a communicator: the process that attached, not a child it forked.

use comm_api::CommError;

/// A mark that a forked child does not find.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    pid: u64,
}

impl Owner {
    /// Marks this process.
    ///
    /// # Errors
    ///
    /// If the page for the mark cannot be mapped.
    pub fn mark() -> std::io::Result<Self> {
        let pid = std::process::id().into();
        mark::set(pid)?;
        Ok(Self { pid })
    }

    /// Checks whether this is the process that was marked.
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
}

/// One page for the whole process, which the kernel zeroes in a forked child: a look at it is a
/// load, where asking for the pid is a system call.
#[cfg(target_os = "linux")]
mod mark {
    use std::io;
    use std::sync::OnceLock;

    use crate::mapping::Mapping;
    use crate::sync::{AtomicU64, Ordering};

    static PAGE: OnceLock<Mapping> = OnceLock::new();

    pub(super) fn set(pid: u64) -> io::Result<()> {
        if PAGE.get().is_none() {
            // Two threads may get here: the page of one is used, that of the other unmapped.
            let _ = PAGE.set(Mapping::wiped_on_fork()?);
        }
        if let Some(page) = PAGE.get() {
            page.at::<AtomicU64>(0).store(pid, Ordering::Relaxed);
        }
        Ok(())
    }

    #[inline]
    pub(super) fn get() -> u64 {
        PAGE.get()
            .map_or(0, |page| page.at::<AtomicU64>(0).load(Ordering::Relaxed))
    }
}

#[cfg(not(target_os = "linux"))]
mod mark {
    pub(super) fn set(_: u64) -> std::io::Result<()> {
        Ok(())
    }

    pub(super) fn get() -> u64 {
        std::process::id().into()
    }
}
