//! Which processors a process may use, and how it shares one.

use std::fs;
use std::path::Path;

/// Returns the numbers of the processors that the calling thread may use, whatever its quota; `None` where the system does
/// not say. `available_parallelism` stays below the quota.
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

/// Returns `None`: the system does not say.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn allowed() -> Option<Vec<usize>> {
    None
}

/// Lets other threads use this processor before the calling one goes on.
///
/// Not through the C library: where ranks share a processor, each page of code that a rank runs through after a switch has to be looked up
/// anew, and a rank that waits does little else.
#[inline]
pub fn give_way() {
    rustix::thread::sched_yield();
}

/// Returns how many processors the control group of this process, or one around it, allows; `None` without a limit.
#[must_use]
pub fn quota() -> Option<f64> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    quota_around(Path::new("/sys/fs/cgroup"), &membership)
}

/// Returns the least quota of a control group and those around it; `membership` is the text of `/proc/self/cgroup`.
fn quota_around(mount: &Path, membership: &str) -> Option<f64> {
    let groups = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let root = match controllers {
            "" => mount.to_path_buf(),
            names if names.split(',').any(|name| name == "cpu") => mount.join("cpu"),
            _ => return None,
        };
        Some((root, path))
    });
    let quotas = groups.flat_map(|(root, path)| {
        let group = root.join(path.trim_start_matches('/'));
        let within = group.ancestors().filter(|group| group.starts_with(&root));
        within.filter_map(quota_of).collect::<Vec<_>>()
    });
    quotas.reduce(f64::min)
}

/// Reads `cpu.max` of version 2, or the two files of version 1. No limit is `max` or -1.
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
    fn the_tightest_quota_around_counts() {
        let root = std::env::temp_dir().join(format!("comm-kit-quota-{}", std::process::id()));
        let inner = root.join("outer/inner");
        fs::create_dir_all(&inner).unwrap();
        fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        fs::write(root.join("outer/cpu.max"), "150000 100000\n").unwrap();
        fs::create_dir_all(root.join("cpu")).unwrap();
        fs::write(root.join("cpu/cpu.cfs_quota_us"), "-1\n").unwrap();
        fs::write(root.join("cpu/cpu.cfs_period_us"), "100000\n").unwrap();
        let two = quota_around(&root, "0::/outer/inner\n");
        let one = quota_around(&root, "4:cpu,cpuacct:/\n3:memory:/\n");
        let unlimited = quota_of(&inner);
        fs::remove_dir_all(&root).unwrap();
        assert_eq!((two, one, unlimited), (Some(1.5), None, None));
    }
}
