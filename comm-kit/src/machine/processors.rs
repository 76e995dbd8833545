//! Which processors a process may use, and how to yield one.

use std::fs;
use std::path::Path;

use crate::control_group::limits;

/// Returns the numbers of the processors that the calling thread may use, ignoring its quota; `None` where
/// the system does not report them. (`available_parallelism` applies the quota.)
#[cfg(target_os = "linux")]
#[must_use]
pub fn allowed() -> Option<Vec<usize>> {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let set = sched_getaffinity(None).ok()?;
    Some(
        (0..CpuSet::MAX_CPU)
            .filter(|&cpu| set.is_set(cpu))
            .collect(),
    )
}

/// Returns `None`: the system does not report it.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn allowed() -> Option<Vec<usize>> {
    None
}

/// Returns how many processors this process may use at once: those in its affinity mask, limited by its
/// quota.
#[must_use]
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Lets other threads use this processor before the calling one continues.
///
/// Bypasses the C library: where ranks share a processor, each code page that a rank touches after a context
/// switch has to be looked up again, and a waiting rank does little else.
#[inline]
pub fn give_way() {
    rustix::thread::sched_yield();
}

/// Returns how many processors this process's control group and its ancestors allow; `None` without a limit.
#[must_use]
pub fn quota() -> Option<f64> {
    limits("cpu", quota_of).into_iter().reduce(f64::min)
}

/// Reads `cpu.max` of version 2, or the two files of version 1. No limit is written as `max` or -1.
fn quota_of(group: &Path) -> Option<f64> {
    let read = |name: &str| fs::read_to_string(group.join(name)).ok();
    let text = read("cpu.max").or_else(|| {
        let quota = read("cpu.cfs_quota_us")?;
        Some(format!("{quota} {}", read("cpu.cfs_period_us")?))
    })?;
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then(|| quota / period)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn the_allowed_processors_are_counted() {
        let usable = std::thread::available_parallelism().unwrap().get();
        assert!(allowed().unwrap().len() >= usable);
    }

    #[test]
    fn both_versions_of_control_groups_have_quotas() {
        let root = std::env::temp_dir().join(format!("comm-kit-quota-{}", std::process::id()));
        let [none, two, one] = ["none", "two", "one"].map(|group| root.join(group));
        for group in [&none, &two, &one] {
            fs::create_dir_all(group).unwrap();
        }
        fs::write(none.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(two.join("cpu.max"), "150000 100000\n").unwrap();
        fs::write(one.join("cpu.cfs_quota_us"), "50000\n").unwrap();
        fs::write(one.join("cpu.cfs_period_us"), "100000\n").unwrap();
        let quotas = [&none, &two, &one].map(|group| quota_of(group));
        fs::write(one.join("cpu.cfs_quota_us"), "-1\n").unwrap();
        let unlimited = quota_of(&one);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(quotas, [None, Some(1.5), Some(0.5)]);
        assert_eq!(unlimited, None);
    }
}
