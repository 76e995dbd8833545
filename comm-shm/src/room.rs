//! Whether there is room: checked and reserved before anything is mapped.
//!
//! A page of shared memory that cannot be provided kills the process that touches it. So every
//! range is reserved first, and before that compared with what the file system, the control groups
//! and the machine have left: a reservation beyond a limit may be answered by killing somebody.

use std::fs::File;
use std::path::Path;

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

/// Reserves `len` bytes of `file` from `offset` on, zeroed, or tells what there is.
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

/// Gives a range back to the system; it reads as zeros from then on.
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

/// The least of what the file system, the control groups and the machine have left.
fn available(file: &File) -> u64 {
    let free = rustix::fs::fstatvfs(file).map_or(u64::MAX, |fs| {
        if fs.f_blocks == 0 {
            u64::MAX
        } else {
            fs.f_bavail.saturating_mul(fs.f_frsize)
        }
    });
    free.min(machine()).min(control_groups())
}

fn machine() -> u64 {
    let read = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    field(&read, "MemAvailable:").map_or(u64::MAX, |kib| kib.saturating_mul(1024))
}

/// The least headroom of the control group of this process and those above it.
fn control_groups() -> u64 {
    let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let Some(path) = membership
        .lines()
        .find_map(|line| line.strip_prefix("0::/"))
    else {
        return u64::MAX;
    };
    let root = Path::new("/sys/fs/cgroup");
    root.join(path)
        .ancestors()
        .take_while(|group| group.starts_with(root))
        .filter_map(headroom)
        .min()
        .unwrap_or(u64::MAX)
}

fn headroom(group: &Path) -> Option<u64> {
    let read = |name: &str| std::fs::read_to_string(group.join(name)).ok();
    let limit: u64 = read("memory.max")?.trim().parse().ok()?;
    let used: u64 = read("memory.current")?.trim().parse().ok()?;
    // Cached file pages that nobody uses are dropped before anybody is killed.
    let idle = field(&read("memory.stat").unwrap_or_default(), "inactive_file").unwrap_or(0);
    Some(limit.saturating_sub(used.saturating_sub(idle)))
}

/// Gives the number after `name` in lines of names and numbers.
fn field(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_the_number_after_its_name() {
        let text = "MemTotal:  8 kB\nMemAvailable:    1234 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(1234));
        assert_eq!(field(text, "SwapFree:"), None);
    }

    #[test]
    fn more_than_the_machine_has_is_refused() {
        let file = File::open("/dev/shm").expect("a directory of this machine");
        let short = reserve(&file, 0, u64::MAX / 2).expect_err("no machine has that");
        assert!(short.available < short.needed, "{short:?}");
    }
}
