//! What a program started by this process would inherit.

use std::fs;

/// Lists the targets of the descriptors that a program started by this process inherits, beyond the three
/// standard streams.
///
/// A descriptor that outlives its process in another one keeps memory, or the end of a link, alive for as
/// long as that program runs. The list is empty where the system does not report descriptors (other than
/// Linux). Other threads that start programs affect the list: call this in a separate process, and compare.
#[must_use]
pub fn inherited() -> Vec<String> {
    let Ok(entries) = fs::read_dir("/proc/self/fdinfo") else {
        return Vec::new();
    };
    let numbers = entries.flatten().map(|entry| entry.file_name());
    let found = numbers.filter_map(|number| {
        let number: u32 = number.to_str()?.parse().ok()?;
        // The folder itself is open while it is read, and may be closed by now.
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).ok()?;
        let target = fs::read_link(format!("/proc/self/fd/{number}")).ok()?;
        let inherits = number > 2 && flags & CLOSES_ON_EXEC == 0;
        inherits.then(|| format!("{number}: {}", target.display()))
    });
    found.collect()
}

/// The flag as the kernel shows it in `fdinfo`: that of `open`, which the common architectures share.
const CLOSES_ON_EXEC: u32 = 0o2_000_000;

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use rustix::io::{FdFlags, fcntl_setfd};

    use super::inherited;

    #[test]
    fn only_what_is_inherited_is_listed() {
        let file = File::open("/dev/null").unwrap();
        let line = format!("{}: /dev/null", file.as_raw_fd());
        assert!(!inherited().contains(&line));
        fcntl_setfd(&file, FdFlags::empty()).unwrap();
        assert!(inherited().contains(&line), "{:?}", inherited());
    }
}
