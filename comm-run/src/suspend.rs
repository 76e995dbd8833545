//! Job control: Ctrl-Z stops the whole job, and `fg` or `bg` continues it.
//!
//! The terminal stops the starter's group only. The ranks are in groups of their own, so they are stopped from here before the
//! starter stops itself, and continued when it goes on.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::ranks::Ranks;

/// How long the ranks may take to stop by themselves. A launcher among them first stops its own.
const POLITE: Duration = Duration::from_millis(500);

/// Stops the ranks and then this process; returns, once it is continued and they are, how long that was.
///
/// Does nothing where nobody could continue it: then the system, too, ignores Ctrl-Z.
pub(crate) fn suspend(ranks: &Ranks) -> Duration {
    if orphaned() {
        return Duration::ZERO;
    }
    let since = Instant::now();
    // Those that somebody stopped before stay stopped.
    let running = ranks.running();
    ranks.signal_groups(&running, Signal::TSTP);
    let is_any_running = || running.iter().any(|&rank| ranks.is_running(rank));
    while is_any_running() && since.elapsed() < POLITE {
        std::thread::sleep(Duration::from_millis(1));
    }
    ranks.signal_groups(&running, Signal::STOP);
    // To this thread, which stops all others with it before it returns. Sent to the process, another thread may take it, and this one
    // would go on for a moment, long enough to continue a rank.
    let _ = signal_hook::low_level::raise(Signal::STOP.as_raw());
    ranks.signal_groups(&running, Signal::CONT);
    since.elapsed()
}

/// Returns whether this process is in an orphaned group: no ancestor outside of it, in the same session, that could continue it.
fn orphaned() -> bool {
    let Some(own) = Place::of(None) else {
        return true;
    };
    let mut parent = own.parent;
    while let Some(ancestor) = parent.and_then(|pid| Place::of(Some(pid))) {
        if ancestor.session != own.session {
            return true;
        }
        if ancestor.group != own.group {
            return false;
        }
        parent = ancestor.parent;
    }
    true
}

/// Where a process stands among the others.
///
/// A process of an outer pid namespace has no number: what `docker exec` or `unshare --pid` starts is in a session whose leader cannot be
/// seen from within.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    parent: Option<Pid>,
    group: Option<Pid>,
    session: Option<Pid>,
}

impl Place {
    /// Returns the place of a process, or of this one, where the system tells.
    #[cfg(target_os = "linux")]
    fn of(pid: Option<Pid>) -> Option<Self> {
        let name = pid.map_or_else(|| "self".to_owned(), |pid| pid.to_string());
        Self::parse(&std::fs::read_to_string(format!("/proc/{name}/stat")).ok()?)
    }

    /// Reads a line of `/proc/PID/stat`. The calls `getsid` and `getpgid` of rustix do not expect the 0 of an outer namespace.
    #[cfg(target_os = "linux")]
    fn parse(stat: &str) -> Option<Self> {
        // State, parent, group and session follow the name, which may hold anything but ends with the last parenthesis.
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut words = rest.split(' ').skip(1);
        let mut next = || Some(Pid::from_raw(words.next()?.parse().ok()?));
        Some(Self {
            parent: next()?,
            group: next()?,
            session: next()?,
        })
    }

    /// Returns the place of a process, or of this one, where the system tells; the parent of another is not known.
    #[cfg(not(target_os = "linux"))]
    fn of(pid: Option<Pid>) -> Option<Self> {
        use rustix::process::{getpgid, getppid, getsid};
        Some(Self {
            parent: if pid.is_none() { getppid() } else { None },
            group: Some(getpgid(pid).ok()?),
            session: Some(getsid(pid).ok()?),
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_is_read() {
        let pid = Pid::from_raw;
        let place = |parent, group, session| {
            Some(Place {
                parent,
                group,
                session,
            })
        };
        assert_eq!(
            Place::parse("7 (sh) S 1 7 5 0 -1 4194560"),
            place(pid(1), pid(7), pid(5))
        );
        assert_eq!(
            Place::parse("7 (a) R 9 9 9) T 1 7 5 0"),
            place(pid(1), pid(7), pid(5))
        );
        assert_eq!(Place::parse("1 (sh) S 0 0 0 0 -1"), place(None, None, None));
        for bad in ["", "7 (sh", "7 (sh) S", "7 (sh) S 1 7", "7 (sh) S 1 x 5"] {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
