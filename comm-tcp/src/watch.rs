//! The failure detector, called the watch: how every rank learns the first cause of a failure, also while rank 0 computes.
//!
//! Each rank holds one idle link to a small thread on rank 0, rank 0 itself through a socket pair.
//! The thread ([`hub`]) alone decides: the first end without a goodbye, abort, timeout or broken
//! link that nobody's death explains becomes the cause, is sent to all, and stays. It only reads and writes; the judge
//! and the order in which ranks get the cause are a machine without links or a clock ([`bench`]). The ranks
//! ([`watcher`], [`member`](crate::member)) report what they see and return what the thread says. While rank 0 is stopped, so is
//! the thread, and nobody hears of anything.

mod bench;
mod hub;
mod log;
#[cfg(test)]
mod nonsense;
mod signals;
mod verdict;
mod watcher;

use crate::link::{Broken, Link};
use crate::notice::Notice;

#[cfg(test)]
pub(crate) use bench::{Action, Bench, End};
pub(crate) use hub::Hub;
pub(crate) use signals::{CommitWord, Signals};
pub(crate) use verdict::{distrusted, unreachable};
pub(crate) use watcher::Watcher;

/// Sends a notice. If the link is broken, that shows when it is read. What ranks repeat is not kept without a limit
/// for a rank that does not read it; what ends the job is.
fn tell(link: &mut Link, notice: &Notice) {
    let bytes = notice.encode();
    if notice.is_repeated() {
        link.offer(&bytes);
    } else {
        link.keep(&bytes);
    }
    let _ = link.write(&[]);
}

/// Returns the next notice once all of it has come, and sends on what could not be sent before.
fn next(link: &mut Link) -> Result<Option<Notice>, Broken> {
    if link.kept() > 0 {
        // If the link is broken, what came before that is still to be read.
        let _ = link.write(&[]);
    }
    let Some((header, body)) = link.frame()? else {
        return Ok(None);
    };
    Notice::decode(&header, &body).map(Some).ok_or(Broken {
        peer: link.peer(),
        reason: "it sent what does not belong on a watch link".to_owned(),
    })
}
