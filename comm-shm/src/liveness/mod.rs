//! Whether the process of a rank has ended.
//!
//! Both ways offer the same: a [`Pulse`] that a rank keeps as long as it lives, [`Peers`] that tell
//! whether the others do, and [`creator_ended`] before they are known.
//!
//! Asking by signal 0 would find a zombie alive, and a heartbeat needs a thread.

#[cfg(any(not(target_os = "linux"), feature = "portable-wait"))]
mod lock;
#[cfg(any(not(target_os = "linux"), feature = "portable-wait"))]
pub(crate) use lock::{Peers, Pulse, creator_ended};

#[cfg(all(target_os = "linux", not(feature = "portable-wait")))]
mod proc;
#[cfg(all(target_os = "linux", not(feature = "portable-wait")))]
pub(crate) use proc::{Peers, Pulse, creator_ended};
