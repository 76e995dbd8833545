//! The watch: how every rank learns the first cause of a failure, also while rank 0 computes.
//!
//! Each rank holds one idle link to a small thread on rank 0, rank 0 itself through a socket pair.
//! The thread ([`hub`]) alone decides: the first end without a goodbye, abort, timeout or broken
//! link that nobody's death explains becomes the cause, is sent to all, and stays. The ranks
//! ([`watcher`]) report what they see and return what the thread says.

mod hub;
mod verdict;
mod watcher;

pub(crate) use hub::{Hub, Signals};
pub(crate) use verdict::disagreement;
pub(crate) use watcher::{Outlook, Watcher};
