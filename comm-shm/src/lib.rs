//! The backend for many processes on one machine: nothing to install, and nothing is left behind.
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
//! | a rank dies or dumps core, for any reason | `PeerLost` with its rank, within 100 ms of their next wait |
//! | a rank drops its communicator, or panics inside or outside of a call | the same, at once |
//! | a rank never enters the call | `TimedOut` with all such ranks, after [`timeout`](ShmConfig::timeout) |
//! | a rank calls something else | `Mismatch`, with what each rank called |
//! | a rank is interrupted while it waits | `Aborted` with its rank, at once |
//! | a rank passes invalid arguments | `Refused` with its rank and reason; the communicator stays usable |
//! | all ranks are killed | nothing is left behind: the segment has no name once all ranks have attached |
//!
//! A segment takes 1 MiB per rank, regardless of payload sizes. Ranks may outnumber processors: a waiting
//! rank yields its processor.
//!
//! Where the system permits it, ranks read large payloads directly from each other's memory: see [`OneCopy`].
//!
//! Architecture invariant: nothing that is read from the segment is used as a length, or as an address that
//! this process dereferences (the kernel, which reads another rank's memory, resolves such an address there).
//! Nothing in the segment is borrowed except atomics and, between two fences, the elements of regions.

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
