//! Whether the process of a rank has ended.
//!
//! A rank checks only the ranks it waits for: a rank that computes learns of a death in its next wait. Ranks
//! that wait for the same ranks share the work, see [`round`](crate::liveness::round).
//!
//! Only "no such process" counts as a death. Any other error, such as a lack of descriptors, leaves the
//! question open until the next check.
//!
//! There are two implementations with the same interface: [`Alive`], which a rank holds as long as it lives,
//! [`Peers`], which check whether the others live, [`has_left`] for the time before the ranks know each
//! other, and [`has_ended`] for a process given by its pid.
//!
//! Signal 0 would report a zombie as alive, and a heartbeat needs a thread.

mod creator;
pub(crate) mod process;
pub(crate) mod round;

#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
mod lock;
#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
pub(crate) use lock::{Alive, Peers, has_ended, has_left};

#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
mod proc;
#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
pub(crate) use proc::{Alive, Peers, has_ended, has_left};

pub(crate) use creator::{creator_ended, creator_lives};
