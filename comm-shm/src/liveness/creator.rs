//! Whether the creator of a segment lives, before the ranks know each other.
//!
//! Its pid answers that, if pids mean the same here as there. Otherwise the lock of the file does: the
//! creator holds it for life, and it is released only after its memory.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use super::has_ended;
use crate::liveness::process::Origin;
use crate::segment::name::{is_free, is_named};

/// How long rank 0 may take between locking a stale segment and removing it.
const REMOVAL: Duration = Duration::from_millis(10);

/// Checks whether the process that created a segment has ended.
pub(crate) fn creator_ended(own: &Origin, creator: &Origin, file: &File) -> bool {
    ended_by_pid(own, creator).unwrap_or_else(|| is_free(file))
}

/// Checks that the process that created a segment lives, and that the segment can be joined.
pub(crate) fn creator_lives(own: &Origin, creator: &Origin, path: &Path, file: &File) -> bool {
    ended_by_pid(own, creator).map_or_else(
        || {
            // Rank 0 also holds the lock of a stale segment briefly, while removing it.
            !is_free(file) && {
                std::thread::sleep(REMOVAL);
                is_named(path, file)
            }
        },
        |ended| !ended,
    )
}

/// Returns whether the creator has ended, if its pid can answer that.
fn ended_by_pid(own: &Origin, creator: &Origin) -> Option<bool> {
    if creator == own && own.process.start != 0 {
        // Another thread of this process; an earlier process with this pid started at another time.
        return Some(false);
    }
    let understood = own.understands(creator);
    understood.then(|| has_ended(creator.process)).flatten()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::liveness::process::Process;
    use crate::segment::name::{lock, path};

    /// Where start times are not known, as in a container without `/proc`, a pid alone means nothing: an
    /// earlier container had the same pids.
    #[test]
    fn an_earlier_process_of_this_pid_has_ended() {
        let process = Process {
            pid: std::process::id(),
            start: 0,
        };
        let own = Origin {
            process,
            pids: 0,
            times: 0,
        };
        let path = path(&format!("cobre-unit-{}-earlier", std::process::id()));
        let (stale, locked) = (File::create(&path).expect("created"), File::open(&path));
        let found = (
            creator_lives(&own, &own, &path, &stale),
            creator_ended(&own, &own, &stale),
        );
        let locked = locked.expect("opened");
        lock(&locked).expect("nobody has");
        let held = (
            creator_lives(&own, &own, &path, &stale),
            creator_ended(&own, &own, &stale),
        );
        std::fs::remove_file(&path).expect("removed");
        assert_eq!((found, held), ((false, true), (true, false)));
    }
}
