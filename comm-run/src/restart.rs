//! Starting a failed job again: when it is worth it.

use std::time::Duration;

use crate::outcome::{Ending, NoRestart, Outcome};

/// A job that fails sooner would fail again.
const TOO_SOON: Duration = Duration::from_secs(1);
/// Wrong usage, and what a shell returns for a program that it cannot execute or find: the next start would end the same way.
const STARTED_WRONGLY: [i32; 3] = [2, 126, 127];

/// What follows the end of a job that has restarts left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Again,
    /// It failed, but that would not help.
    Useless(NoRestart),
    /// It did not fail, or its end was asked for.
    End,
}

/// Returns what follows an end like this.
pub(crate) fn after(outcome: &Outcome) -> Next {
    let failed = matches!(outcome.ending, Ending::RankFailed(_));
    if !failed || outcome.timed_out || outcome.stopped.is_some() {
        return Next::End;
    }
    let code = outcome.exit_code();
    let first = outcome.first_failure.map(|rank| &outcome.ranks[rank]);
    if STARTED_WRONGLY.contains(&code) {
        Next::Useless(NoRestart::StartedWrongly(code))
    } else if first.is_none_or(|rank| rank.elapsed < TOO_SOON) {
        Next::Useless(NoRestart::TooSoon)
    } else {
        Next::Again
    }
}
