//! The words of every failure: what failed, who is to blame, what to do.
//!
//! One place for all backends, so that the same failure reads the same everywhere. Most functions
//! return the message of a [`CommError::CollectiveFailed`]; the operation, the kind and the rank
//! stand in front of it when it is shown.

use std::fmt::Write;
use std::time::Duration;

use comm_api::{CommError, FailureKind};

use crate::call::Call;

/// How many ranks, or differing calls, a message lists.
const LISTED: usize = 16;

/// The most bytes of a refusal's reason that travel.
pub const LONGEST_REASON: usize = 248;

/// Names how a rank was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// Its process ended.
    Ended,
    /// It dropped its communicator, or its handle to a region.
    Dropped,
    /// It dropped it while it was unwinding.
    Panicked,
    /// It panicked in the middle of a call.
    PanickedInside,
}

impl Lost {
    /// Returns what the drop of a communicator or region announces.
    #[must_use]
    pub fn by_drop() -> Self {
        if std::thread::panicking() {
            Self::Panicked
        } else {
            Self::Dropped
        }
    }

    /// Returns the code that travels; never 0.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ended => 1,
            Self::Dropped => 2,
            Self::Panicked => 3,
            Self::PanickedInside => 4,
        }
    }

    /// Reads a code; one that no rank sends means that the process ended.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match code {
            2 => Self::Dropped,
            3 => Self::Panicked,
            4 => Self::PanickedInside,
            _ => Self::Ended,
        }
    }

    const fn how(self) -> &'static str {
        match self {
            Self::Ended => "its process ended",
            Self::Dropped => "it dropped its communicator or region",
            Self::Panicked => "it panicked",
            Self::PanickedInside => "it panicked inside a call",
        }
    }
}

/// Returns the message of a [`PeerLost`](FailureKind::PeerLost); `place` says where the rank ran or
/// how that was noticed, where the ranks are on several machines.
#[must_use]
pub fn lost(lost: Lost, place: Option<&str>) -> String {
    let how = lost.how();
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    format!(
        "{how}{place} before it contributed; look at what it printed last, then restart the job"
    )
}

/// Returns the message of a [`TimedOut`](FailureKind::TimedOut) about ranks that did not come.
/// `missing` is a list as [`ranks`] writes it, `variable` the one that holds the timeout.
#[must_use]
pub fn absent(missing: &str, timeout: Option<Duration>, variable: &str) -> String {
    let within = within(timeout);
    format!(
        "{missing} did not come{within}; raise {variable} if that is too short for the work between two calls \
         (0 waits for ever)"
    )
}

/// Returns the message of a [`TimedOut`](FailureKind::TimedOut) in the middle of a call.
#[must_use]
pub fn stalled(rank: &str, timeout: Option<Duration>, variable: &str) -> String {
    let within = within(timeout);
    format!(
        "{rank} moved no byte{within} in the middle of a call; raise {variable} if the network is that slow (0 waits \
         for ever)"
    )
}

fn within(timeout: Option<Duration>) -> String {
    timeout.map_or(String::new(), |limit| format!(" within {limit:?}"))
}

/// Compares what the ranks called; returns the lowest that differs from the first, and the message
/// of the [`Mismatch`](FailureKind::Mismatch).
pub fn differing(calls: impl IntoIterator<Item = (usize, Call)>) -> Option<(usize, String)> {
    let mut distinct: Vec<(usize, Call)> = Vec::new();
    for (rank, call) in calls {
        if distinct.iter().all(|&(_, known)| known != call) {
            distinct.push((rank, call));
        }
    }
    let &(blamed, _) = distinct.get(1)?;
    let shown: Vec<String> = distinct
        .iter()
        .take(LISTED)
        .map(|(rank, call)| format!("rank {rank} called {call}"))
        .collect();
    let message = format!(
        "{}; all ranks must call the same collectives in the same order with arguments that agree",
        shown.join(", ")
    );
    Some((blamed, message))
}

/// Returns the message of an [`Aborted`](FailureKind::Aborted) by `abort(code)`.
#[must_use]
pub fn aborted(code: i32) -> String {
    format!("it called abort({code})")
}

/// Returns the message of an [`Aborted`](FailureKind::Aborted) through the
/// [hook](crate::interrupt).
#[must_use]
pub fn interrupted() -> String {
    String::from(
        "it was interrupted while it waited; this communicator or region cannot be used any more",
    )
}

/// Returns the reason of a refusal as it travels to the other ranks: one line, not too long.
#[must_use]
pub fn reason(error: &CommError) -> String {
    let mut reason = error.to_string();
    reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
    reason
}

/// Creates the [`Refused`](FailureKind::Refused) of a call that `rank` refused. The reason is what
/// came from there; without one the error says only that there was one.
#[cold]
#[must_use]
pub fn refused(operation: &'static str, rank: usize, reason: Option<&str>) -> CommError {
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let message = format!(
        "it refused its arguments{reason}; nothing was exchanged, this communicator stays usable"
    );
    CommError::failed(operation, FailureKind::Refused, Some(rank), message)
}

/// Creates the [`Refused`](FailureKind::Refused) of a second thread inside one communicator: the
/// calls of two threads would match up differently on different ranks.
#[cold]
#[must_use]
pub fn busy(operation: &'static str, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "another thread of this rank is inside a collective of this communicator; let one finish before the next, or \
         give each thread a communicator of its own",
    )
}

/// Lists ranks, in ascending order: `rank 2`, `ranks 1, 3`; many of them as runs: `ranks 1, 32-63`.
#[must_use]
pub fn ranks(list: &[usize]) -> String {
    if list.len() <= LISTED {
        return ranks_at(list, |_| None);
    }
    let runs: Vec<&[usize]> = list.chunk_by(|a, b| a + 1 == *b).collect();
    let shown = runs.iter().take(LISTED).map(|run| match run {
        [first, .., end] => format!("{first}-{end}"),
        run => run.iter().map(usize::to_string).collect(),
    });
    let shown: Vec<String> = shown.collect();
    let more = if runs.len() > LISTED { ", .." } else { "" };
    format!("ranks {}{more}", shown.join(", "))
}

/// Lists ranks with the places where they run: `rank 2 (10.0.0.3)`.
#[must_use]
pub fn ranks_at<'a>(list: &[usize], place: impl Fn(usize) -> Option<&'a str>) -> String {
    let mut text = String::from(if list.len() == 1 { "rank" } else { "ranks" });
    for (i, &rank) in list.iter().take(LISTED).enumerate() {
        let separator = if i == 0 { "" } else { "," };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator} {rank}");
        if let Some(place) = place(rank) {
            let _ = write!(text, " ({place})");
        }
    }
    if list.len() > LISTED {
        text.push_str(", ..");
    }
    text
}

/// Makes text of bytes that came from elsewhere: one line, printable, not too long.
#[must_use]
pub fn printable(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut clean: String = clean.collect();
    clean.truncate(clean.floor_char_boundary(most));
    clean
}

/// How long a call waits before the log says so, and how often it repeats that.
pub const SLOW: Duration = Duration::from_secs(10);

/// Logs that a call has waited for long; `missing` is a list as [`ranks`] writes it.
pub fn log_waiting(operation: &'static str, rank: usize, missing: &str, waited: Duration) {
    let seconds = waited.as_secs();
    tracing::warn!(operation, rank, %missing, seconds, "still waiting");
}

#[cfg(test)]
mod tests;
