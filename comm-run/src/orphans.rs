//! The first process of a container inherits what others leave, and nobody else reaps it.

use rustix::process::{Pid, WaitId, WaitIdOptions, getpid, waitid};

use crate::ranks::Ranks;

/// Returns whether this process is the one to which the system gives orphans.
pub(crate) fn are_ours() -> bool {
    getpid().is_init()
}

/// Reaps every child that has ended and that the job does not wait for itself.
pub(crate) fn reap(ranks: &Ranks) {
    let own = ranks.children();
    for child in children().into_iter().filter(|child| !own.contains(child)) {
        // One that lives stays; one that somebody else reaped meanwhile is gone.
        let _ = waitid(
            WaitId::Pid(child),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG,
        );
    }
}

/// Returns the children of all threads; none where the system does not tell.
fn children() -> Vec<Pid> {
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
