//! Job control: Ctrl-Z stops the whole job, and `fg` or `bg` continues it.
//!
//! The terminal stops the starter's group only. The ranks are in groups of their own, so they are stopped from here before the
//! starter stops itself, and continued when it goes on.
//!
//! # A launcher among the ranks
//!
//! An outer launcher stops an inner one that does not stop in time. Continued, the inner one may only now come to the request to stop;
//! nobody would continue it a second time. So the request counts only as long as no signal to go on has come after it.

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

/// How long processes with a handler for Ctrl-Z may take to stop by themselves. A launcher among them first stops its own ranks.
const POLITE: Duration = Duration::from_secs(2);

/// Which of Ctrl-Z and its opposite came last.
static LAST: OnceLock<Arc<AtomicUsize>> = OnceLock::new();
const STOP: usize = 1;
const GO_ON: usize = 2;

/// Remembers from now on which of the two signals came last.
pub(super) fn remember_the_last() -> io::Result<()> {
    let last = Arc::clone(LAST.get_or_init(Arc::default));
    // Registered once more, it is stored twice, which is the same.
    register_usize(Signal::TSTP.as_raw(), Arc::clone(&last), STOP)?;
    register_usize(Signal::CONT.as_raw(), last, GO_ON)?;
    Ok(())
}

/// Returns whether a signal to go on came after the one to stop.
fn is_outdated() -> bool {
    // The handler runs in a thread that may not have come to it yet.
    Masks::of(None).await_a_thread_for(Signal::CONT)
        || LAST
            .get()
            .is_some_and(|last| last.load(Ordering::SeqCst) == GO_ON)
}

/// Stops the ranks and then this process; returns, once it is continued and they are, how long that was.
///
/// Does nothing where nobody could continue it: then the system, too, ignores Ctrl-Z.
pub(super) fn suspend(ranks: &Ranks) -> Duration {
    if orphaned() || is_outdated() {
        return Duration::ZERO;
    }
    let since = Instant::now();
    // Those that somebody stopped before stay stopped.
    let running = ranks.running();
    let is_any_about_to_stop = about_to_stop(ranks, &running);
    ranks.signal_groups(&running, Signal::TSTP);
    while is_any_about_to_stop() && since.elapsed() < POLITE {
        std::thread::sleep(Duration::from_millis(1));
    }
    ranks.signal_groups(&running, Signal::STOP);
    if !is_outdated() {
        // To this thread, which stops all others with it before it returns. Sent to the process, another thread may take it, and this
        // one would go on for a moment, long enough to continue a rank.
        let _ = signal_hook::low_level::raise(Signal::STOP.as_raw());
    }
    ranks.signal_groups(&running, Signal::CONT);
    since.elapsed()
}

/// Returns a look at whether a process that these ranks are or have started takes its time to stop: it has a handler for Ctrl-Z.
///
/// The system itself stops all others, even if it does not say so: a process that waits in `vfork` for one that is stopped does not count
/// as stopped.
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

/// Returns a look at whether one of these ranks still runs.
#[cfg(not(target_os = "linux"))]
fn about_to_stop<'a>(ranks: &'a Ranks, running: &'a [usize]) -> impl Fn() -> bool + 'a {
    move || running.iter().any(|&rank| ranks.is_running(rank))
}

/// Returns whether this process is in an orphaned group: no ancestor outside of it, in the same session, that could continue it.
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
