//! Identifies the process of a rank: a pid alone may have been reused.

/// A process, distinct from later ones with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    /// The start time, in ticks since the machine started, truncated; 0 where it is not known.
    pub(crate) start: u64,
}

/// The bits of a [seat](Process::seat) that hold a start time: 300 years of ticks.
const START_BITS: u32 = 40;

const START_MASK: u64 = (1 << START_BITS) - 1;

impl Process {
    /// Returns this process. Without a `/proc` of its own pid namespace the start time is not known.
    pub(crate) fn current() -> Self {
        Self {
            pid: std::process::id(),
            start: own_start().unwrap_or(0),
        }
    }

    /// Packs the process into one word, so that one operation takes a seat and names its owner; never 0.
    pub(crate) fn seat(self) -> u64 {
        u64::from(self.pid) << START_BITS | self.start
    }

    /// Unpacks the process that took a seat; no process has pid 0.
    pub(crate) fn of_seat(word: u64) -> Self {
        Self {
            pid: u32::try_from(word >> START_BITS).unwrap_or(0),
            start: word & START_MASK,
        }
    }
}

/// Checks whether `/proc` shows the pids of this process: that of another pid namespace shows other processes
/// under them.
#[cfg(target_os = "linux")]
pub(crate) fn has_own_proc() -> bool {
    let own = std::fs::read_link("/proc/self").ok();
    let own = own.as_ref().and_then(|own| own.to_str()?.parse().ok());
    own == Some(std::process::id())
}

/// Returns the start time of this process, if `/proc` shows it.
#[cfg(target_os = "linux")]
fn own_start() -> Option<u64> {
    let stat = has_own_proc().then(|| std::fs::read("/proc/self/stat"))?;
    Some(Stat::parse(&stat.ok()?)?.start)
}

#[cfg(not(target_os = "linux"))]
fn own_start() -> Option<u64> {
    None
}

/// What `/proc/PID/stat` shows of a process.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// The flags of the kernel, `PF_*`.
    pub(crate) flags: u64,
    /// The number of threads; one that has ended and waits to be reaped counts.
    pub(crate) threads: u64,
    pub(crate) start: u64,
    /// The size of the memory map in bytes, as the main thread has it; 0 once that thread has ended.
    pub(crate) bytes: u64,
}

#[cfg(target_os = "linux")]
impl Stat {
    pub(crate) fn parse(stat: &[u8]) -> Option<Self> {
        // The second field is a name in parentheses, which may contain anything; it ends at the last
        // parenthesis.
        let end = stat.iter().rposition(|&byte| byte == b')')?;
        let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let mut fields = rest.split_ascii_whitespace();
        let mut skip = |fields_before| fields.nth(fields_before)?.parse::<u64>().ok();
        Some(Self {
            flags: skip(6)?,
            threads: skip(10)?,
            start: skip(1)? & START_MASK,
            bytes: skip(0)?,
        })
    }
}

/// A process, and the namespaces of its numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) process: Process,
    /// The namespace of its pid; 0 where it is not known.
    pub(crate) pids: u64,
    /// The time namespace of its start time; 0 where it is not known.
    pub(crate) times: u64,
}

impl Origin {
    /// Returns the origin of this process.
    pub(crate) fn current() -> Self {
        Self {
            process: Process::current(),
            pids: namespace("pid"),
            times: namespace("time"),
        }
    }

    /// Checks whether the pid and the start time of `other` mean the same to both processes.
    pub(crate) fn understands(&self, other: &Self) -> bool {
        let known = self.process.start != 0 && other.process.start != 0;
        known && (self.pids, self.times) == (other.pids, other.times)
    }
}

#[cfg(target_os = "linux")]
fn namespace(kind: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(format!("/proc/self/ns/{kind}")).map_or(0, |namespace| namespace.ino())
}

#[cfg(not(target_os = "linux"))]
fn namespace(_: &str) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_holds_a_process() {
        let process = Process {
            pid: 4_194_303,
            start: 123_456_789_012,
        };
        assert_eq!(Process::of_seat(process.seat()), process);
        assert_eq!(Process::of_seat(0).pid, 0);
        let own = Process::current();
        assert_eq!(Process::of_seat(own.seat()), own);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_name_may_hold_anything() {
        let stat =
            b"77 (a) R 1 (b) S 1 2 3 4 5 1028 7 8 9 10 11 12 13 14 15 16 3 18 900 4096 5 6\n";
        let expected = Stat {
            flags: 1028,
            threads: 3,
            start: 900,
            bytes: 4096,
        };
        assert_eq!(Stat::parse(stat), Some(expected));
        assert_eq!(Stat::parse(b"77 (a) S 1 2"), None);
        assert_eq!(Stat::parse(b""), None);
    }
}
