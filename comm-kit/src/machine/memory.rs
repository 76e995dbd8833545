//! How much memory is available. Checked before a large allocation, so that a region that is too large is an
//! error on every rank, instead of a rank that the kernel kills when it touches the pages.

use std::fs;
use std::path::{Path, PathBuf};

use comm_api::bytemuck::allocation::try_zeroed_vec;
use comm_api::{CommData, CommError};

/// Smaller allocations are not worth asking the system, which takes microseconds.
const WORTH_A_LOOK: usize = 1 << 20;

/// Allocates `count` zeroed elements.
///
/// # Errors
///
/// [`CommError::AllocationFailed`] with the bytes needed and available if the elements exceed `isize::MAX`
/// bytes or the memory that this process may use.
pub fn zeroed_vec<T: CommData>(count: usize) -> Result<Vec<T>, CommError> {
    let bytes = count.saturating_mul(size_of::<T>());
    room(bytes)?;
    try_zeroed_vec(count).map_err(|()| short(bytes, available()))
}

/// Checks that `bytes` more can be allocated.
///
/// # Errors
///
/// [`CommError::AllocationFailed`] with the bytes needed and available.
pub fn room(bytes: usize) -> Result<(), CommError> {
    if bytes < WORTH_A_LOOK {
        return Ok(());
    }
    match available() {
        Some(free) if u64::try_from(bytes).is_ok_and(|bytes| bytes <= free) => Ok(()),
        None if bytes <= isize::MAX.unsigned_abs() => Ok(()),
        free => Err(short(bytes, free)),
    }
}

/// Returns how many bytes this process may still use: the available memory of the system, or less if a
/// control group limits it. `None` where the system does not report it.
#[must_use]
pub fn available() -> Option<u64> {
    let system = mem_available(&fs::read_to_string("/proc/meminfo").ok()?)?;
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group = headroom(Path::new("/sys/fs/cgroup"), &membership);
    Some(group.map_or(system, |group| system.min(group)))
}

#[cold]
fn short(requested_bytes: usize, available: Option<u64>) -> CommError {
    let message = match available {
        Some(free) => format!(
            "{free} bytes are available to this process; ask for less, or give the machine or the control group more memory"
        ),
        None => String::from("the system has too little memory; ask for less"),
    };
    CommError::allocation_failed(requested_bytes, message)
}

/// Reads the line `MemAvailable:   123 kB`.
fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find(|line| line.starts_with("MemAvailable:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

/// Returns the smallest headroom among this process's control group and its ancestors.
///
/// `membership` is the text of `/proc/self/cgroup`: `0::/path` for version 2, `N:memory:/path` for the memory
/// controller of version 1. Inside a container the path may be one of the host that is not mounted; the
/// mounted root is used then.
fn headroom(mount: &Path, membership: &str) -> Option<u64> {
    let groups = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        if controllers.is_empty() {
            Some((mount.to_path_buf(), path, &V2))
        } else if controllers.split(',').any(|name| name == "memory") {
            Some((mount.join("memory"), path, &V1))
        } else {
            None
        }
    });
    groups
        .flat_map(|(root, path, files)| {
            upwards(&root, path).filter_map(move |group| files.headroom(&group))
        })
        .min()
}

/// Walks from a group to the root of its hierarchy.
fn upwards(root: &Path, path: &str) -> impl Iterator<Item = PathBuf> + use<> {
    let root = root.to_path_buf();
    let group = root.join(path.trim_start_matches('/'));
    let groups: Vec<PathBuf> = group
        .ancestors()
        .take_while(|group| group.starts_with(&root))
        .map(Path::to_path_buf)
        .collect();
    groups.into_iter()
}

/// The file names of one version of control groups.
struct Files {
    limit: &'static str,
    usage: &'static str,
    /// The field of `memory.stat` that counts the file pages that the kernel reclaims before it fails an
    /// allocation.
    reclaimable: &'static str,
}

static V1: Files = Files {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
static V2: Files = Files {
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};

impl Files {
    /// Returns limit - usage + reclaimable; `None` for a group without a limit ("max").
    fn headroom(&self, group: &Path) -> Option<u64> {
        let number = |name: &str| -> Option<u64> {
            fs::read_to_string(group.join(name))
                .ok()?
                .trim()
                .parse()
                .ok()
        };
        let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let reclaimable = stat
            .lines()
            .filter_map(|line| line.split_once(' '))
            .find(|(name, _)| *name == self.reclaimable)
            .and_then(|(_, bytes)| bytes.parse().ok())
            .unwrap_or(0);
        let (limit, usage) = (number(self.limit)?, number(self.usage)?);
        Some(limit.saturating_sub(usage.saturating_sub(reclaimable)))
    }
}

#[cfg(test)]
mod tests;
