//! Which process a rank is: a pid by itself may belong to somebody else by now.

/// A process, distinct from later ones of the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// When it started, in ticks since the machine did; 0 where that is not known.
    pub(crate) start: u64,
    /// Which pid namespace its pid belongs to; 0 where that is not known.
    pub(crate) namespace: u64,
}

impl Process {
    /// Returns this process.
    pub(crate) fn current() -> Self {
        let pid = std::process::id();
        Self {
            pid,
            start: start_of(pid).unwrap_or(0),
            namespace: namespace(),
        }
    }

    /// Checks whether this is the calling process, and not an earlier one of its pid: in a container
    /// that is started again, processes get the same pids again.
    pub(crate) fn is_current(self) -> bool {
        self.pid == std::process::id() && self.start == Self::current().start
    }
}

/// Returns when process `pid` started, if there is one and the system shows it.
#[cfg(target_os = "linux")]
pub(crate) fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    // The second field is a name in parentheses, which may hold anything but ends at the last one.
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn start_of(_: u32) -> Option<u64> {
    None
}

#[cfg(target_os = "linux")]
fn namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

#[cfg(not(target_os = "linux"))]
fn namespace() -> u64 {
    0
}
