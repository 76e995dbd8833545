//! Job control: Ctrl-Z stops the whole job, and `fg` or `bg` continues it.
//!
//! The terminal stops only the starter's group. The ranks have their own groups, so the starter stops them before it
//! stops itself, and continues them when it is continued.
//!
//! # A launcher among the ranks
//!
//! An outer launcher stops an inner launcher that does not stop in time. When the inner one is continued, it may not have handled
//! the request to stop yet, and if it stopped now, nothing would continue it again. So a request to stop counts only until a
//! signal to continue arrives.

use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use rustix::process::Pid;
use rustix::process::Signal;
use signal_hook::flag::register_usize;

use crate::host::proc::{Masks, Stat};
use crate::supervise::ranks::Ranks;

/// How long processes with a handler for Ctrl-Z may take to stop. A launcher among them stops its own ranks first.
const POLITE: Duration = Duration::from_secs(2);

/// Which signal came last: [`STOP`] from Ctrl-Z, or [`GO_ON`].
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
const STOP: usize = 1;
const GO_ON: usize = 2;

/// Starts to record which of the two signals came last.
pub(super) fn remember_the_last() -> io::Result<()> {
    let last = Arc::clone(LAST.get_or_init(Arc::default));
    // Registering a second time stores the same value twice, which is harmless.
    register_usize(Signal::TSTP.as_raw(), Arc::clone(&last), STOP)?;
    register_usize(Signal::CONT.as_raw(), last, GO_ON)?;
    Ok(())
}

/// Returns whether a signal to continue came after the one to stop.
fn is_outdated() -> bool {
    // The handler may not have run yet, because another thread runs it.
    Masks::of(None).await_a_thread_for(Signal::CONT)
        || LAST
            .get()
            .is_some_and(|last| last.load(Ordering::SeqCst) == GO_ON)
}

/// Stops the ranks and then this process. When this process is continued, continues the ranks and returns how long the job was
/// stopped.
///
/// Does nothing in an orphaned group, where no process could continue this one: there the system ignores Ctrl-Z, too.
pub(super) fn suspend(ranks: &Ranks) -> Duration {
    if orphaned() || is_outdated() {
        return Duration::ZERO;
    }
    let since = Instant::now();
    // Ranks that were already stopped stay stopped.
    let running = ranks.running();
    let is_any_about_to_stop = about_to_stop(ranks, &running);
    ranks.signal_groups(&running, Signal::TSTP);
    while is_any_about_to_stop() && since.elapsed() < POLITE {
        std::thread::sleep(Duration::from_millis(1));
    }
    ranks.signal_groups(&running, Signal::STOP);
    if !is_outdated() {
        // To this thread: the call returns only after the whole process was stopped. If the signal went to the process, another thread
        // might take it, and this one would keep running for a moment, long enough to continue a rank.
        let _ = signal_hook::low_level::raise(Signal::STOP.as_raw());
    }
    ranks.signal_groups(&running, Signal::CONT);
    since.elapsed()
}

/// Returns a check for processes in these ranks' groups that are still about to stop because they have a handler for Ctrl-Z.
///
/// The system itself stops all others, but may not report it: a process that waits in `vfork` for a stopped child is not
/// reported as stopped.
#[cfg(target_os = "linux")]
fn about_to_stop(ranks: &Ranks, running: &[usize]) -> impl Fn() -> bool {
    let groups: Vec<Pid> = running.iter().map(|&rank| ranks.pid(rank)).collect();
    let is_theirs = |&pid: &Pid| {
        let stat = Stat::of(Some(pid));
        let group = stat.and_then(|stat| stat.group);
        group.is_some_and(|group| groups.contains(&group))
    };
    let with_a_handler: Vec<Pid> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(is_theirs)
        .filter(|&pid| Masks::of(Some(pid)).catch(Signal::TSTP))
        .collect();
    let runs = |&pid: &Pid| Stat::of(Some(pid)).is_some_and(|stat| stat.runs);
    move || with_a_handler.iter().any(runs)
}

/// Returns a check for whether one of these ranks still runs.
#[cfg(not(target_os = "linux"))]
fn about_to_stop<'a>(ranks: &'a Ranks, running: &'a [usize]) -> impl Fn() -> bool + 'a {
    move || running.iter().any(|&rank| ranks.is_running(rank))
}

/// Returns whether this process is in an orphaned group: no ancestor outside the group, in the same session, can continue it.
fn orphaned() -> bool {
    let Some(own) = Stat::of(None) else {
        return true;
    };
    let mut parent = own.parent;
    while let Some(ancestor) = parent.and_then(|pid| Stat::of(Some(pid))) {
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
