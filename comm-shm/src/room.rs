//! Whether there is room: checked and reserved before anything is mapped.
//!
//! A page of shared memory that cannot be provided kills the process that touches it. So every
//! range is reserved first, and before that compared with what the file system, the control groups
//! and the machine have left: a reservation beyond a limit may be answered by killing somebody.

use std::fs::File;

use comm_api::CommError;

/// Why a range could not be reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Short {
    pub(crate) needed: u64,
    pub(crate) available: u64,
}

impl Short {
    pub(crate) fn error(self, requested_bytes: usize) -> CommError {
        let Self { needed, available } = self;
        CommError::AllocationFailed {
            requested_bytes,
            message: format!(
                "{needed} bytes of shared memory are needed on this machine and {available} are \
                 available; enlarge /dev/shm (containers: --shm-size) or the memory limit, or make \
                 it smaller"
            ),
        }
    }
}

/// Reserves `len` bytes of `file` from `offset` on, zeroed, or returns how much there is.
pub(crate) fn reserve(file: &File, offset: u64, len: u64) -> Result<(), Short> {
    let available = available(file);
    let short = |available| Short {
        needed: len,
        available,
    };
    if len > available {
        return Err(short(available));
    }
    loop {
        match extend(file, offset, len) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            // What looked free went to somebody else, or never was.
            Err(_) => return Err(short(available.min(self::available(file)).min(len - 1))),
        }
    }
}

/// Returns a range to the system; it reads as zeros from then on.
pub(crate) fn release(file: &File, offset: u64, len: u64) {
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{FallocateFlags, fallocate};
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // If it fails the range stays reserved until the last rank closes the file.
        let _ = fallocate(file, flags, offset, len);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, len);
}

#[cfg(target_os = "linux")]
fn extend(file: &File, offset: u64, len: u64) -> rustix::io::Result<()> {
    rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len)
}

/// Elsewhere the file is made longer and its pages come when they are touched.
#[cfg(not(target_os = "linux"))]
fn extend(file: &File, offset: u64, len: u64) -> rustix::io::Result<()> {
    rustix::fs::ftruncate(file, offset + len)
}

/// Returns the least of what the file system, the control groups and the machine have left.
fn available(file: &File) -> u64 {
    let free = rustix::fs::fstatvfs(file).map_or(u64::MAX, |fs| {
        if fs.f_blocks == 0 {
            u64::MAX
        } else {
            fs.f_bavail.saturating_mul(fs.f_frsize)
        }
    });
    free.min(comm_api::memory::available().unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let file = File::open("/dev/shm").expect("a directory of this machine");
        let short = reserve(&file, 0, u64::MAX / 2).expect_err("no machine has that");
        assert!(short.available < short.needed, "{short:?}");
    }
}
