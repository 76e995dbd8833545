//! The messages of all failures: what failed, which rank is to blame, and what to do.
//!
//! All backends share these functions, so that the same failure has the same message everywhere. Most
//! functions return the message of a [`CommError::CollectiveFailed`]; its `Display` puts the operation, the
//! kind and the rank in front.

use std::time::Duration;

use comm_api::{CommError, FailureKind, Operation};

use crate::Call;

/// How many ranks, or differing calls, a message lists.
const LISTED: usize = 16;

/// The maximum number of bytes of a refusal's reason that are sent to the other ranks.
pub const LONGEST_REASON: usize = 248;

/// Names how a rank was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lost {
    /// The process of the rank ended.
    Ended,
    /// The rank dropped its communicator, or its handle to a region.
    Dropped,
    /// The rank dropped its communicator or handle while it was unwinding.
    Panicked,
    /// The rank panicked in the middle of a call.
    PanickedInside,
}

impl Lost {
    /// Returns what a rank announces when it drops a communicator or region.
    #[must_use]
    pub fn by_drop() -> Self {
        if std::thread::panicking() {
            Self::Panicked
        } else {
            Self::Dropped
        }
    }

    /// Returns the code on the wire; never 0.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ended => 1,
            Self::Dropped => 2,
            Self::Panicked => 3,
            Self::PanickedInside => 4,
        }
    }

    /// Decodes a code from the wire; unknown codes mean that the process ended.
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

/// Returns the message of a [`PeerLost`](FailureKind::PeerLost). In jobs of several machines, `place` says
/// where the rank ran or how its loss was noticed.
#[must_use]
pub fn lost(lost: Lost, place: Option<&str>) -> String {
    let how = lost.how();
    let place = place.map_or(String::new(), |place| format!(" ({place})"));
    format!(
        "{how}{place} before it contributed; look at what it printed last, then restart the job"
    )
}

/// Returns the message of a [`TimedOut`](FailureKind::TimedOut) about ranks that did not enter the call.
/// `missing` is a list of ranks as [`ranks`] formats it, and `variable` is the environment variable that sets
/// the timeout.
#[must_use]
pub fn absent(missing: &str, timeout: Option<Duration>, variable: &str) -> String {
    let within = within(timeout);
    format!(
        "{missing} did not enter the call{within}; increase {variable} if ranks compute longer than that between calls \
         (0 disables the timeout)"
    )
}

/// Returns the message of a [`TimedOut`](FailureKind::TimedOut) in the middle of a call.
#[must_use]
pub fn stalled(rank: &str, timeout: Option<Duration>, variable: &str) -> String {
    let within = within(timeout);
    format!(
        "{rank} transferred no data{within} in the middle of a call; increase {variable} if the network is that slow \
         (0 disables the timeout)"
    )
}

fn within(timeout: Option<Duration>) -> String {
    timeout.map_or(String::new(), |limit| format!(" within {limit:?}"))
}

/// Compares the calls of the ranks. If they differ, returns the lowest rank whose call differs from the
/// first, and the message of the [`Mismatch`](FailureKind::Mismatch), which groups the ranks by what they
/// called.
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
        // Of some arguments only a hash was sent: the message can then only show that the ranks differ.
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

/// Lists what the ranks called, each call once: `ranks 0, 2 called barrier, rank 3 called split_local`.
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

/// Returns the message of an [`Aborted`](FailureKind::Aborted) caused by `abort(code)`.
#[must_use]
pub fn aborted(code: i32) -> String {
    format!("it called abort({code})")
}

/// Returns the message of an [`Aborted`](FailureKind::Aborted) caused by the [hook](crate::interrupt).
#[must_use]
pub fn interrupted() -> String {
    String::from(
        "it was interrupted while it waited; this communicator or region is no longer usable",
    )
}

/// Returns the reason of a refusal as it is sent to the other ranks: one line of limited length, without the place of the call.
#[must_use]
pub fn reason(error: &CommError) -> String {
    let mut reason = error.placeless().to_string();
    reason.truncate(reason.floor_char_boundary(LONGEST_REASON));
    reason
}

/// Creates the [`Refused`](FailureKind::Refused) of a call that `rank` refused. `reason` is what that rank
/// sent; without one the message gives no reason.
#[cold]
#[must_use]
pub fn refused(operation: Operation, rank: usize, reason: Option<&str>) -> CommError {
    let reason = reason.map_or(String::new(), |reason| format!(": {reason}"));
    let message = format!(
        "it was called with invalid arguments{reason}; no data was exchanged and the communicator is still usable"
    );
    CommError::failed(operation, FailureKind::Refused, Some(rank), message)
}

/// Creates the [`Refused`](FailureKind::Refused) for a second thread inside one communicator: calls of two
/// threads would match up differently on different ranks.
#[cold]
#[must_use]
pub fn busy(operation: Operation, rank: usize) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        "another thread of this rank is inside a collective of this communicator; wait until it returns, or give each \
         thread its own communicator",
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

/// Creates the [`Refused`](FailureKind::Refused) of a `fence` in the write phase of a gathered region. Only
/// this rank gets the error; the other ranks are not notified.
#[cold]
#[must_use]
pub fn fence_before_exchange(rank: usize) -> CommError {
    refusal(
        Operation::Fence,
        rank,
        "the write phase of a gathered region ends on all ranks of the job: call exchange() of its communicator",
    )
}

/// Creates the [`Refused`](FailureKind::Refused) of a call on a broken region.
#[cold]
#[must_use]
pub fn broken_region(operation: Operation, rank: usize) -> CommError {
    refusal(operation, rank, BROKEN)
}

/// The message for a broken region.
pub(crate) const BROKEN: &str = "a fence or an exchange of this region failed, so its contents cannot be relied on; drop the \
                                 region and create another";

fn refusal(operation: Operation, rank: usize, message: &str) -> CommError {
    CommError::failed(operation, FailureKind::Refused, Some(rank), message)
}

/// Creates the error of a region that exceeds the address space.
#[cold]
#[must_use]
pub fn too_large(count: usize, elem_size: usize) -> CommError {
    CommError::allocation_failed(
        count.saturating_mul(elem_size),
        format!("{count} elements of {elem_size} bytes are more than can be addressed"),
    )
}

/// Creates the error of a region for which `rank` has too little memory; `own` is the local error if this is
/// that rank.
#[cold]
#[must_use]
pub fn no_room(requested_bytes: usize, rank: usize, own: Option<CommError>) -> CommError {
    own.unwrap_or_else(|| {
        CommError::allocation_failed(
            requested_bytes,
            format!("rank {rank} has too little memory; the error on that rank says how much is available"),
        )
    })
}

/// Lists ranks in ascending order: `rank 2`, `ranks 1, 3`. Three or more consecutive ranks are shown as a
/// range: `ranks 3-9, 12`.
#[must_use]
pub fn ranks(list: &[usize]) -> String {
    ranks_at(list, |_| None)
}

/// Lists ranks with the machines where they run: `rank 2 (10.0.0.3)`.
#[must_use]
pub fn ranks_at<'a>(list: &[usize], place: impl Fn(usize) -> Option<&'a str>) -> String {
    let location = |rank| place(rank).map_or(String::new(), |place| format!(" ({place})"));
    let runs = list
        .chunk_by(|&one, &next| one + 1 == next && place(one).is_none() && place(next).is_none());
    let mut parts = runs.flat_map(|run| match run {
        [first, _, .., end] => vec![format!("{first}-{end}")],
        // Two consecutive ranks are shorter as they are.
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

/// Converts bytes from another process to one printable line of limited length.
#[must_use]
pub fn printable(bytes: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let clean = text.chars().map(|c| if c.is_control() { ' ' } else { c });
    let mut clean: String = clean.collect();
    clean.truncate(clean.floor_char_boundary(most));
    clean
}

/// How long a call waits before the log mentions it, and how often it is logged again.
pub const SLOW: Duration = Duration::from_secs(10);

/// Logs that a call has been waiting for a long time; `missing` is a list of ranks as [`ranks`] formats it.
pub fn log_waiting(operation: Operation, rank: usize, missing: &str, waited: Duration) {
    let seconds = waited.as_secs();
    tracing::warn!(operation = operation.as_str(), rank, %missing, seconds, "still waiting");
}

#[cfg(test)]
mod tests;
