//! Whether the process that created a segment lives, before the ranks know each other.
//!
//! Its pid tells, if it means the same here as there; otherwise the lock of the file, which it holds as long as
//! it lives and which outlives its memory.

use std::fs::File;
use std::time::Duration;

use super::has_ended;
use crate::name::{is_free, is_linked};
use crate::process::Origin;

/// How long rank 0 may take between the lock of a stale segment and its removal.
const REMOVAL: Duration = Duration::from_millis(10);

/// Checks whether the process that created a segment has ended.
pub(crate) fn creator_ended(own: &Origin, creator: &Origin, file: &File) -> bool {
    ended_by_pid(own, creator).unwrap_or_else(|| is_free(file))
}

/// Checks whether the process that created a segment lives, and the segment is there to be joined.
pub(crate) fn creator_lives(own: &Origin, creator: &Origin, file: &File) -> bool {
    ended_by_pid(own, creator).map_or_else(
        || {
            // Rank 0 also holds the lock of a stale segment, for the moment in which it removes it.
            !is_free(file) && {
                std::thread::sleep(REMOVAL);
                is_linked(file)
            }
        },
        |ended| !ended,
    )
}

/// Returns whether the creator has ended, if its pid can tell.
fn ended_by_pid(own: &Origin, creator: &Origin) -> Option<bool> {
    if creator == own {
        // Another thread of this process; an earlier process of this pid started at another time.
        return Some(false);
    }
    let understood = own.understands(creator);
    understood.then(|| has_ended(creator.process)).flatten()
}
