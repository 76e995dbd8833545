//! Whether the process of a rank has ended.
//!
//! Both ways offer the same: [`Alive`], which a rank keeps as long as it lives, [`Peers`], which show
//! whether the others do, and [`creator_ended`] for the time before they are known.
//!
//! Asking by signal 0 would find a zombie alive, and a heartbeat needs a thread.

#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
mod lock;
#[cfg(any(not(target_os = "linux"), comm_portable_wait))]
pub(crate) use lock::{Alive, Peers, creator_ended, is_settled};

#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
mod proc;
#[cfg(all(target_os = "linux", not(comm_portable_wait)))]
pub(crate) use proc::{Alive, Peers, creator_ended, is_settled};
