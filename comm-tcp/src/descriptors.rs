//! How many descriptors a rank opens, and whether it may open as many.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::config::TcpConfig;
use crate::error::InitError;

/// Where the descriptors of a process are listed.
const FOLDER: &str = if cfg!(target_os = "linux") {
    "/proc/self/fd"
} else {
    "/dev/fd"
};

/// Returns the maximum number of descriptors that a rank has open in addition to those of its program, which
/// is reached when its calls begin. A listener, closed by then, counts no more than those opened later.
pub(crate) fn needed(config: &TcpConfig) -> usize {
    let TcpConfig { rank, size, .. } = *config;
    let workers = size - 1;
    // Rank 0 holds a data and a watch link to each worker, and both ends of its own watch link.
    let links = if rank == 0 { 2 * workers + 2 } else { 2 };
    // Before the start, only rank 0 knows that there is no ring.
    let ring = size > 2 && (rank > 0 || config.ring);
    let neighbours = if ring { 2 } else { 0 };
    // In addition: the handle to the watch link through which another thread aborts, and one for the files in
    // which the system reports how long a rank waits for a processor.
    links + neighbours + 2
}

/// Rejects a job that needs more descriptors than the limit of the process permits. Checked before anything
/// is opened: later it would be a missing link, on a rank that the others believe to be started. `given`
/// means that the listener is already open.
pub(crate) fn check(config: &TcpConfig, given: bool) -> Result<(), InitError> {
    let (needed, Some((limit, free))) = (needed(config), room()) else {
        return Ok(());
    };
    let free = free + usize::from(given);
    if needed <= free {
        return Ok(());
    }
    let TcpConfig { rank, size, .. } = config;
    Err(InitError::failed(
        &[],
        format!(
            "rank {rank} of {size} needs {needed} descriptors beside those of its program, and may open {free} of its limit of \
             {limit}; raise the limit (ulimit -n)"
        ),
    ))
}

/// Returns the limit of this process and how many descriptors it leaves; `None` without a limit.
fn room() -> Option<(u64, usize)> {
    let limit = getrlimit(Resource::Nofile).current?;
    let below = |number: &str| number.parse().is_ok_and(|number: u64| number < limit);
    let open = match std::fs::read_dir(FOLDER) {
        Ok(entries) => {
            let names = entries.flatten().map(|entry| entry.file_name());
            // One of them is that of the folder.
            let open = names.filter(|name| name.to_str().is_some_and(below));
            (open.count() as u64).saturating_sub(1)
        }
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => limit,
        // The standard streams, where the system does not list descriptors.
        Err(_) => 3,
    };
    let free = usize::try_from(limit.saturating_sub(open));
    Some((limit, free.unwrap_or(usize::MAX)))
}
