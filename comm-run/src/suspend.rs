//! Job control: Ctrl-Z stops the whole job, and `fg` or `bg` continues it.
//!
//! The terminal stops the starter's group only. The ranks are in groups of their own, so they are stopped from here before the
//! starter stops itself, and continued when it goes on.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getpgid, getpgrp, getppid, getsid};

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
    let (Ok(session), group) = (getsid(None), getpgrp()) else {
        return true;
    };
    let mut ancestor = getppid();
    while let Some(pid) = ancestor {
        if getsid(Some(pid)) != Ok(session) {
            return true;
        }
        if getpgid(Some(pid)) != Ok(group) {
            return false;
        }
        ancestor = parent(pid);
    }
    true
}

/// Returns the parent of another process, where the system tells.
fn parent(of: Pid) -> Option<Pid> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", of.as_raw_nonzero())).ok()?;
    // State and parent follow the name, which may hold anything but ends with the last parenthesis.
    let (_, rest) = stat.rsplit_once(") ")?;
    Pid::from_raw(rest.split(' ').nth(1)?.parse().ok()?)
}
