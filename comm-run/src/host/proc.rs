//! What the system reports about a process.

use rustix::process::{Pid, Signal, getpid};

/// Reads a file of `/proc` about a process, or about this one; `None` if the system has no such file.
fn read(pid: Option<Pid>, file: &str) -> Option<String> {
    let name = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
    std::fs::read_to_string(format!("/proc/{name}/{file}")).ok()
}

/// How a process handles signals, as Linux reports it. Empty on systems that report it only to unsafe code.
pub(crate) struct Masks(String);

impl Masks {
    /// Returns the signals of a process, or of this one.
    pub(crate) fn of(pid: Option<Pid>) -> Self {
        Self(read(pid, "status").unwrap_or_default())
    }

    /// Returns whether the process ignores the signal, as under `nohup` or in a shell without job control.
    pub(crate) fn ignore(&self, signal: Signal) -> bool {
        self.hold("SigIgn:", signal)
    }

    /// Returns whether the process has a handler for the signal.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn catch(&self, signal: Signal) -> bool {
        self.hold("SigCgt:", signal)
    }

    /// Returns whether the signal is pending: sent to the process, but not yet handled by any of its threads.
    pub(crate) fn await_a_thread_for(&self, signal: Signal) -> bool {
        self.hold("ShdPnd:", signal)
    }

    fn hold(&self, name: &str, signal: Signal) -> bool {
        let mask = self.0.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.unwrap_or(0) & (1 << (signal.as_raw() - 1)) != 0
    }
}

/// Whether a process runs, and its parent, group and session, from `/proc/PID/stat`.
///
/// A process of an outer pid namespace has no number: a process that `docker exec` or `unshare --pid` starts is in a
/// session whose leader is not visible from inside.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Whether it is neither stopped nor ended, if the system reports it.
    #[cfg(target_os = "linux")]
    pub(crate) runs: bool,
    pub(crate) parent: Option<Pid>,
    pub(crate) group: Option<Pid>,
    pub(crate) session: Option<Pid>,
}

impl Stat {
    /// Returns what the system reports about a process, or about this one.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(pid: Option<Pid>) -> Option<Self> {
        Self::parse(&read(pid, "stat")?)
    }

    /// Parses a line of `/proc/PID/stat`. The calls `getsid` and `getpgid` of rustix do not expect the 0 that stands for a
    /// process of an outer namespace.
    #[cfg(target_os = "linux")]
    fn parse(stat: &str) -> Option<Self> {
        // State, parent, group and session follow the name, which may hold any characters and ends with the last parenthesis.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut words = rest.split(' ');
        let runs = !matches!(words.next()?, "T" | "t" | "Z" | "X");
        let mut next = || Some(Pid::from_raw(words.next()?.parse().ok()?));
        Some(Self {
            runs,
            parent: next()?,
            group: next()?,
            session: next()?,
        })
    }

    /// Returns what the system reports about a process, or about this one; not the parent of another process.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(pid: Option<Pid>) -> Option<Self> {
        use rustix::process::{getpgid, getppid, getsid};
        Some(Self {
            parent: if pid.is_none() { getppid() } else { None },
            group: Some(getpgid(pid).ok()?),
            session: Some(getsid(pid).ok()?),
        })
    }
}

/// Returns whether this process adopts orphans, as the first process of a container does.
pub(crate) fn orphans_are_ours() -> bool {
    getpid().is_init()
}

/// Returns the children of all threads; none if the system does not report them.
pub(crate) fn children() -> Vec<Pid> {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let lists = threads
        .filter_map(Result::ok)
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok());
    let pids = |list: String| {
        let pids = list.split_whitespace().filter_map(|pid| pid.parse().ok());
        pids.filter_map(Pid::from_raw).collect::<Vec<_>>()
    };
    lists.flat_map(pids).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_is_found_or_empty() {
        let status = "Name:\tsh\nShdPnd:\t0000000000020000\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000080000\n";
        let masks = Masks(status.to_owned());
        for signal in [Signal::HUP, Signal::CONT, Signal::TSTP] {
            assert_eq!(masks.ignore(signal), signal == Signal::HUP, "{signal:?}");
            assert_eq!(masks.catch(signal), signal == Signal::TSTP, "{signal:?}");
            let awaits = masks.await_a_thread_for(signal);
            assert_eq!(awaits, signal == Signal::CONT, "{signal:?}");
        }
        for bad in ["", "SigIgn:\tnonsense"] {
            assert!(!Masks(bad.to_owned()).ignore(Signal::HUP), "{bad}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_line_of_the_system_is_read() {
        let pid = Pid::from_raw;
        let stat = |runs, parent, group, session| {
            Some(Stat {
                runs,
                parent,
                group,
                session,
            })
        };
        assert_eq!(
            Stat::parse("7 (sh) S 1 7 5 0 -1 4194560"),
            stat(true, pid(1), pid(7), pid(5))
        );
        assert_eq!(
            Stat::parse("7 (a) R 9 9 9) T 1 7 5 0"),
            stat(false, pid(1), pid(7), pid(5))
        );
        assert_eq!(
            Stat::parse("1 (sh) S 0 0 0 0 -1"),
            stat(true, None, None, None)
        );
        for bad in ["", "7 (sh", "7 (sh) S", "7 (sh) S 1 7", "7 (sh) S 1 x 5"] {
            assert_eq!(Stat::parse(bad), None, "{bad}");
        }
    }
}
