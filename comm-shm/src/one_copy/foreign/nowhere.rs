//! The memory of another rank, where no system call reads it.

use std::io;

use comm_kit::Beacon;

/// Where the memory of one rank would be found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foreign {
    #[expect(dead_code, reason = "there is no call to give it to")]
    pub(crate) pid: u32,
    pub(crate) beacon: Beacon,
}

impl Foreign {
    /// Reads nothing.
    ///
    /// # Errors
    ///
    /// Always.
    #[expect(clippy::unused_self, reason = "called as where there is such a call")]
    pub(crate) fn read(self, _address: u64, _into: &mut [u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Does nothing.
///
/// # Errors
///
/// Always.
pub(crate) fn open_to_siblings() -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
