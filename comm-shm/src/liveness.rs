//! Whether the process of a rank has ended.
//!
//! A rank looks at those it waits for, and at nobody else: whoever computes learns of a death in its next
//! wait. Those who wait for the same ranks share the work, see [`round`](crate::liveness::round).
//!
//! Only "no such process" is a death. Whatever else keeps a rank from looking, such as a lack of descriptors,
//! leaves the question open until the next look.
//!
//! There are two ways to look, which offer the same: [`Alive`], which a rank keeps as long as it lives, [`Peers`],
//! which show whether the others do, [`has_left`] for the time before they are known, and [`has_ended`] for a process
//! by its pid.
//!
//! Asking by signal 0 would find a zombie alive, and a heartbeat needs a thread.

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
