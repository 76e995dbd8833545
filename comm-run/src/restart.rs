//! Starting a failed job again: when it is worth it.

use std::time::Duration;

use crate::outcome::{Ending, Outcome};

/// A job that fails sooner would fail again.
const TOO_SOON: Duration = Duration::from_secs(1);
/// Wrong usage, and what a shell returns for a program that it cannot execute or find: the next start would end the same way.
const STARTED_WRONGLY: [i32; 3] = [2, 126, 127];

/// Returns whether a job that ended like this should be started again.
pub(crate) fn is_worth_it(outcome: &Outcome) -> bool {
    let failed = matches!(outcome.ending, Ending::RankFailed(_));
    let unwanted = outcome.timed_out || outcome.stopped.is_some();
    let first = outcome.first_failure.map(|rank| &outcome.ranks[rank]);
    let too_soon = first.is_none_or(|rank| rank.elapsed < TOO_SOON);
    failed && !unwanted && !too_soon && !STARTED_WRONGLY.contains(&outcome.exit_code())
}
