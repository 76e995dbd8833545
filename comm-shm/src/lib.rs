//! The backend of many processes on one machine: nothing to install, nothing left behind.
//!
//! [`ShmBackend`] implements the traits of `comm-api` through a segment of shared memory. A rank
//! finds its job by the name in its [`ShmConfig`], which the launcher sets:
//!
//! ```no_run
//! use comm_api::{Communicator, ReduceOp};
//! use comm_shm::{ShmBackend, ShmConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = ShmBackend::attach(ShmConfig::from_env()?)?;
//! let mut sum = [0.0];
//! comm.allreduce(&[comm.rank() as f64], &mut sum, ReduceOp::Sum)?;
//! # Ok(())
//! # }
//! ```
//!
//! | what happens | what the other ranks get |
//! |---|---|
//! | a rank dies or dumps core, by whatever | `PeerLost` with its rank, within 100 ms of their next wait |
//! | it drops its communicator, or panics inside a call or outside | the same, at once |
//! | it stays away | `TimedOut` with all who do, after [`timeout`](ShmConfig::timeout) |
//! | it calls something else | `Mismatch`, with what each called |
//! | it is interrupted while it waits | `Aborted` with its rank, at once |
//! | its arguments are refused | `Refused` with its rank and reason; the communicator goes on |
//! | all are killed | nothing stays: the segment has no name once all ranks have come |
//!
//! A segment takes 1 MiB per rank, whatever travels through it. Ranks may outnumber processors: a
//! rank that waits yields its own.
//!
//! Where the system allows it, ranks read large payloads straight out of each other's memory: see [`OneCopy`].
//!
//! Architecture invariant: what is read from the segment is never a length, nor an address that this process
//! follows (the kernel reads another rank's memory, and looks such an address up there); and
//! nothing in it is borrowed but atomics and, between two fences, the elements of regions.

#![cfg_attr(
    loom,
    allow(
        dead_code,
        clippy::unused_self,
        clippy::unwrap_used,
        reason = "a model uses the protocol, not what is built on it, and is a test as a whole"
    )
)]

#[cfg(not(loom))]
mod collective;
#[cfg(not(loom))]
mod communicator;
mod config;
mod error;
#[cfg(not(loom))]
mod liveness;
#[cfg(not(loom))]
#[doc(hidden)]
pub mod node;
#[cfg(not(loom))]
mod one_copy;
mod protocol;
#[cfg(not(loom))]
mod region;
#[cfg(not(loom))]
mod segment;
#[cfg(not(loom))]
mod startup;

#[cfg(not(loom))]
pub use communicator::ShmBackend;
pub use config::{OneCopy, ShmConfig};
pub use error::{InitError, InitErrorKind};
#[cfg(not(loom))]
pub use region::ShmRegion;
