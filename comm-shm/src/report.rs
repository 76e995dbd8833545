//! The words of errors and events: what failed, who is to blame, what to do.

use std::time::Duration;

use comm_api::{CommError, FailureKind};

use crate::call::Call;
use crate::cause::{Cause, Reason};

/// How many ranks a message lists.
const LISTED: usize = 16;

pub(crate) fn refused(operation: &'static str, rank: usize, reason: Option<String>) -> CommError {
    let reason = reason.unwrap_or_else(|| "it refused its arguments".to_owned());
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        format!("{reason}; nothing was exchanged, this communicator stays usable"),
    )
}

/// Returns the error of a cause.
pub(crate) fn failed(
    operation: &'static str,
    cause: Cause,
    timeout: Option<Duration>,
    calls: impl Iterator<Item = (usize, Call)>,
) -> CommError {
    let Cause { kind, rank, code } = cause;
    let message = match kind {
        FailureKind::PeerLost => {
            let how = match Reason::from_code(code) {
                Reason::Ended => "its process ended",
                Reason::Dropped => "it dropped its end",
                Reason::Panicked => "it panicked",
            };
            format!(
                "{how} before it contributed; look at what it printed last, then restart the job"
            )
        }
        FailureKind::TimedOut => {
            let mut missing: Vec<usize> = (0..32).filter(|rank| code >> rank & 1 == 1).collect();
            if missing.is_empty() {
                missing.push(rank);
            }
            let after = timeout.map_or(String::new(), |limit| format!(" within {limit:?}"));
            format!(
                "{} did not come{after}; raise COBRE_SHM_TIMEOUT_SECS if that is too short for \
                 the work between two calls (0 waits for ever)",
                ranks(&missing)
            )
        }
        FailureKind::Mismatch => differing(calls),
        FailureKind::Aborted => format!("it called abort({})", code.cast_signed()),
        _ => "the shared segment holds what no rank writes; restart the job".to_owned(),
    };
    CommError::failed(operation, kind, Some(rank), message)
}

/// Shows what the first rank called, and who called something else.
fn differing(calls: impl Iterator<Item = (usize, Call)>) -> String {
    let mut shown: Vec<(usize, Call)> = Vec::new();
    for (rank, call) in calls {
        if shown.iter().all(|&(_, known)| known != call) {
            shown.push((rank, call));
        }
    }
    let parts: Vec<String> = shown
        .iter()
        .take(LISTED)
        .map(|(rank, call)| format!("rank {rank} called {call}"))
        .collect();
    format!(
        "{}; all ranks must call the same collectives in the same order with arguments that agree",
        parts.join(", ")
    )
}

/// Lists ranks: `rank 2`, `ranks 1, 3`.
pub(crate) fn ranks(list: &[usize]) -> String {
    let mut text = String::from(if list.len() == 1 { "rank " } else { "ranks " });
    for (i, rank) in list.iter().take(LISTED).enumerate() {
        text.push_str(if i == 0 { "" } else { ", " });
        text.push_str(&rank.to_string());
    }
    if list.len() > LISTED {
        text.push_str(", ..");
    }
    text
}

/// Reports that a wait takes long, and for whom.
pub(crate) fn long_wait(operation: &'static str, rank: usize, missing: &[usize], time: Duration) {
    tracing::warn!(
        operation,
        rank,
        missing = %ranks(missing),
        seconds = time.as_secs(),
        "still waiting"
    );
}

/// Reports that a sequence failed.
pub(crate) fn failure(rank: usize, error: &CommError) {
    tracing::error!(rank, %error, "collective failed");
}
