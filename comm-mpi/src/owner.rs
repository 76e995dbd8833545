//! Who may use a communicator: the process that opened it, not a child it forked.

use comm_api::CommError;

/// A mark that a forked child does not bear.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Owner {
    pid: u32,
}

impl Owner {
    /// Marks this process.
    pub(crate) fn mark() -> Self {
        Self {
            pid: std::process::id(),
        }
    }

    /// Tells whether this is the process that was marked.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        std::process::id() == self.pid
    }

    #[inline]
    pub(crate) fn check(self) -> Result<(), CommError> {
        if self.is_here() {
            Ok(())
        } else {
            Err(CommError::InvalidCommunicator)
        }
    }
}
