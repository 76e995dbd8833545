//! The words of every failure: what failed, who is to blame, what to do.
//!
//! One place for all backends, so that the same failure reads the same everywhere. Most functions
//! return the message of a [`CommError::CollectiveFailed`]; the operation, the kind and the rank
//! stand in front of it when it is shown.

use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};

use crate::Call;

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
/// of the [`Mismatch`](FailureKind::Mismatch), which lists the ranks in groups that called the same.
pub fn differing(calls: impl IntoIterator<Item = (usize, Call)>) -> Option<(usize, String)> {
    let mut groups: Vec<(Call, Vec<usize>)> = Vec::new();
    for (rank, call) in calls {
        match groups.iter_mut().find(|(known, _)| *known == call) {
            Some((_, members)) => members.push(rank),
            None => groups.push((call, vec![rank])),
        }
    }
    let blamed = *groups.get(1)?.1.first()?;
    let mut shown: Vec<String> = Vec::new();
    let mut sentences: Vec<String> = Vec::new();
    for (call, members) in groups.iter().take(LISTED) {
        let text = call.to_string();
        // Only a hash of some arguments has travelled: then all that can be said is who differs.
        let hidden = if shown.contains(&text) {
            call.hidden()
        } else {
            ""
        };
        sentences.push(format!("{} called {text}{hidden}", ranks(members)));
        shown.push(text);
    }
    let more = if groups.len() > LISTED { ", .." } else { "" };
    let message = format!(
        "{}{more}; all ranks must call the same collectives in the same order with arguments that agree",
        sentences.join(", ")
    );
    Some((blamed, message))
}

/// Says what ranks called, each call once: `ranks 0, 2 called barrier, rank 3 called split_local`.
pub fn called(calls: impl IntoIterator<Item = (usize, Call)>) -> String {
    let mut distinct: Vec<(Call, Vec<usize>)> = Vec::new();
    for (rank, call) in calls {
        match distinct.iter_mut().find(|(known, _)| *known == call) {
            Some((_, ranks)) => ranks.push(rank),
            None => distinct.push((call, vec![rank])),
        }
    }
    let shown = distinct
        .iter()
        .take(LISTED)
        .map(|(call, list)| format!("{} called {call}", ranks(list)));
    shown.collect::<Vec<_>>().join(", ")
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
pub fn refused(operation: Operation, rank: usize, reason: Option<&str>) -> CommError {
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
pub fn busy(operation: Operation, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "another thread of this rank is inside a collective of this communicator; let one finish before the next, or \
         give each thread a communicator of its own",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of an `exchange` of a region that this communicator did not create.
#[cold]
#[must_use]
pub fn foreign_region(rank: usize) -> CommError {
    refusal(
        Operation::Exchange,
        rank,
        "another communicator created this region; call exchange() of that one",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of an `exchange` of a region that is not gathered.
#[cold]
#[must_use]
pub fn not_gathered(rank: usize) -> CommError {
    refusal(
        Operation::Exchange,
        rank,
        "the ranks of one node share this region; call its fence(), or create it with create_gathered_region()",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of an `exchange` in a read phase.
#[cold]
#[must_use]
pub fn exchanged_before(rank: usize) -> CommError {
    refusal(
        Operation::Exchange,
        rank,
        "the region is in its read phase; call its fence() to end it, then write, then exchange()",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of a `fence` in the write phase of a gathered region: a rank's own, of
/// which the others do not hear.
#[cold]
#[must_use]
pub fn fence_before_exchange(rank: usize) -> CommError {
    refusal(
        Operation::Fence,
        rank,
        "the write phase of a gathered region ends on all ranks of the job: call exchange() of its communicator",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of a call that needs a region which is broken.
#[cold]
#[must_use]
pub fn broken_region(operation: Operation, rank: usize) -> CommError {
    refusal(operation, rank, BROKEN)
}

/// What to do with a region that is broken.
pub(crate) const BROKEN: &str = "a fence or an exchange of this region failed, so what it holds cannot be relied on; drop it \
                                 and create another";

fn refusal(operation: Operation, rank: usize, message: &str) -> CommError {
    CommError::failed(operation, FailureKind::Refused, Some(rank), message)
}

/// Creates the error of a region that no address space holds.
#[cold]
#[must_use]
pub fn too_large(count: usize, elem_size: usize) -> CommError {
    CommError::allocation_failed(
        count.saturating_mul(elem_size),
        format!("{count} elements of {elem_size} bytes are more than can be addressed"),
    )
}

/// Creates the error of a region for which `rank` has no room; `own` is its own error, on that rank.
#[cold]
#[must_use]
pub fn no_room(requested_bytes: usize, rank: usize, own: Option<CommError>) -> CommError {
    own.unwrap_or_else(|| {
        CommError::allocation_failed(
            requested_bytes,
            format!("rank {rank} has no room for it; its own error says what it has"),
        )
    })
}

/// Lists ranks, in ascending order: `rank 2`, `ranks 1, 3`; three and more in a row as a run: `ranks 3-9, 12`.
#[must_use]
pub fn ranks(list: &[usize]) -> String {
    ranks_at(list, |_| None)
}

/// Lists ranks with the places where they run: `rank 2 (10.0.0.3)`.
#[must_use]
pub fn ranks_at<'a>(list: &[usize], place: impl Fn(usize) -> Option<&'a str>) -> String {
    let location = |rank| place(rank).map_or(String::new(), |place| format!(" ({place})"));
    let runs = list
        .chunk_by(|&one, &next| one + 1 == next && place(one).is_none() && place(next).is_none());
    let mut parts = runs.flat_map(|run| match run {
        [first, _, .., end] => vec![format!("{first}-{end}")],
        // Two in a row are shorter as they are.
        few => few
            .iter()
            .map(|&rank| format!("{rank}{}", location(rank)))
            .collect(),
    });
    let shown: Vec<String> = parts.by_ref().take(LISTED).collect();
    let more = if parts.next().is_some() { ", .." } else { "" };
    let noun = if list.len() == 1 { "rank" } else { "ranks" };
    format!("{noun} {}{more}", shown.join(", "))
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
pub fn log_waiting(operation: Operation, rank: usize, missing: &str, waited: Duration) {
    let seconds = waited.as_secs();
    tracing::warn!(operation = operation.as_str(), rank, %missing, seconds, "still waiting");
}

#[cfg(test)]
mod tests;
