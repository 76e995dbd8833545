//! The limits of the control group of this process, and of those around it.

use std::fs;
use std::path::Path;

/// Returns the limits that `limit_of` finds in the folders of this process's control group and its ancestors:
/// for `controller` in version 1, for all controllers in version 2.
pub fn limits<T>(controller: &str, limit_of: impl Fn(&Path) -> Option<T>) -> Vec<T> {
    let membership = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    limits_around(
        Path::new("/sys/fs/cgroup"),
        &membership,
        controller,
        limit_of,
    )
}

/// As [`limits`]; `membership` is the text of `/proc/self/cgroup`.
fn limits_around<T>(
    mount: &Path,
    membership: &str,
    controller: &str,
    limit_of: impl Fn(&Path) -> Option<T>,
) -> Vec<T> {
    let groups = membership.lines().filter_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let root = match controllers {
            "" => mount.to_path_buf(),
            names if names.split(',').any(|name| name == controller) => mount.join(controller),
            _ => return None,
        };
        Some((root, path))
    });
    let limits = groups.flat_map(|(root, path)| {
        let group = root.join(path.trim_start_matches('/'));
        let within = group.ancestors().filter(|group| group.starts_with(&root));
        within.filter_map(&limit_of).collect::<Vec<_>>()
    });
    limits.collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]
mod tests {
    use super::*;

    #[test]
    fn every_group_around_is_asked_and_no_other() {
        let root = std::env::temp_dir().join(format!("comm-kit-group-{}", std::process::id()));
        for group in ["outer/inner", "outer/other", "pids/one"] {
            fs::create_dir_all(root.join(group)).unwrap();
        }
        for (group, limit) in [
            ("outer/inner", "7"),
            ("outer", "5"),
            ("outer/other", "1"),
            ("pids/one", "3"),
        ] {
            fs::write(root.join(group).join("pids.max"), limit).unwrap();
        }
        let limit_of = |group: &Path| fs::read_to_string(group.join("pids.max")).ok();
        let found = |membership| limits_around(&root, membership, "pids", limit_of);
        let two = found("0::/outer/inner\n");
        let one = found("4:cpu:/one\n3:memory,pids:/one\n");
        fs::remove_dir_all(&root).unwrap();
        assert_eq!(two, ["7", "5"]);
        assert_eq!(one, ["3"]);
    }
}
