//! The limit on open descriptors: raised as far as a job needs and the system allows, and reset for the ranks.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::start::error::StartError;

/// The two output pipes of a rank.
const PER_RANK: usize = 2;
/// Runtime, signals, terminal, warden, reports, the listener, and the descriptors that are open briefly while a rank starts.
const OWN: usize = 48;

/// The limit before this process raised its own: the ranks start with it.
static BEFORE: OnceLock<Rlimit> = OnceLock::new();

/// Returns how many descriptors a job with this number of ranks opens.
pub(crate) fn of_job(ranks: usize) -> usize {
    OWN + PER_RANK * ranks
}

/// Makes room for a job with this number of ranks, and for `more` descriptors.
///
/// # Errors
///
/// [`StartError::TooFewDescriptors`] if the system allows fewer.
pub(crate) fn reserve(ranks: usize, more: usize) -> Result<(), StartError> {
    let needed = open() + of_job(ranks) + more;
    let limit = getrlimit(Resource::Nofile);
    let enough = |limit: Option<u64>| limit.is_none_or(|limit| needed as u64 <= limit);
    if enough(limit.current) {
        return Ok(());
    }
    let too_few = |allowed: Option<u64>| StartError::TooFewDescriptors {
        ranks,
        needed,
        allowed: allowed.unwrap_or(u64::MAX),
    };
    if !enough(limit.maximum) {
        return Err(too_few(limit.maximum));
    }
    let raised = Rlimit {
        current: Some(needed as u64),
        maximum: limit.maximum,
    };
    BEFORE.get_or_init(|| limit);
    // Fails only if the system has another limit than the one it reports.
    setrlimit(Resource::Nofile, raised).map_err(|_| too_few(limit.current))
}

/// Returns the limit that a rank starts with, if it differs from that of this process: the limit from before it was raised,
/// because many programs rely on a low one, or as many as this rank needs for its `links`.
pub(crate) fn of_rank(links: usize) -> Option<Rlimit> {
    let here = getrlimit(Resource::Nofile);
    let before = BEFORE.get().unwrap_or(&here);
    let wanted = before
        .current
        .map(|current| current.max((links + OWN) as u64));
    let current = match (wanted, before.maximum) {
        (Some(wanted), Some(most)) if links > 0 => Some(wanted.min(most)),
        (Some(wanted), None) if links > 0 => Some(wanted),
        _ => before.current,
    };
    let limit = Rlimit {
        current,
        maximum: before.maximum,
    };
    Some(limit).filter(|limit| *limit != here)
}

/// Returns how many descriptors are open.
fn open() -> usize {
    let folder = if cfg!(target_os = "linux") {
        "/proc/self/fd"
    } else {
        "/dev/fd"
    };
    // If the system does not report it: the standard streams.
    std::fs::read_dir(folder).map_or(3, Iterator::count)
}
