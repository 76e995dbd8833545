//! The interface of the published `cobre-comm` 0.18, on the backends of this repository.
//!
//! With one change to its manifest, a program written for 0.18 also runs over shared memory and TCP,
//! without an MPI library:
//!
//! ```toml
//! [patch.crates-io]
//! cobre-comm = { path = "../cobre-comm/compat/cobre-comm" }
//! ```
//!
//! Its calls, its error matches and its mocks stay the same:
//!
//! ```
//! use cobre_comm::{BackendKind, Communicator, ReduceOp, create_communicator};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = create_communicator(BackendKind::Auto)?;
//! let mut sum = [0.0];
//! comm.allreduce(&[1.5], &mut sum, ReduceOp::Sum)?;
//! assert_eq!(sum, [1.5]);
//! # Ok(())
//! # }
//! ```
//!
//! | feature | adds |
//! |---|---|
//! | `shm`, `tcp` (default) | the backends that 0.18 lacks; `Auto` finds them as `comm-run` starts the ranks |
//! | `mpi`, `numa` | `FerrompiBackend`, as in 0.18 |
//! | `shared-memory` | regions, as in 0.18, but truly shared by the ranks of a node |
//!
//! Differences from 0.18:
//!
//! - Elements are plain old data with a default ([`CommData`]), so `bool`, tuples and structs with padding cannot be
//!   sent. With `mpi`, 0.18 accepts only seven scalars; here every type of this kind can be sent.
//! - A reduction of elements that are no scalars is an error even on one rank, as is `BitwiseOr` of floats.
//! - [`create_communicator`] returns [`CommBackend`] with any set of features. [`CommBackend`] and `LocalCommKind`
//!   have more variants.
//! - The texts of all errors differ, and [`available_backends`] also lists `tcp` and `shm`.
//! - [`Communicator::abort`] with 0 exits with 1, because an aborted job did not succeed.
//! - Regions can be written only once: the first fence freezes them, because a slice may outlive `fence(&self)`.
//!   Before the fence `as_slice` panics, after it `as_mut_slice` does.
//! - Sums have the same bits on every backend. If a rank dies, is late or makes another call, the error names it.
//!
//! New programs should use `comm-factory`, which has typed errors and regions with phases.
//!
//! Architecture invariant: this crate only translates, and nothing depends on it.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod backend;
mod communicator;
mod error;
mod forward;
#[cfg(any(feature = "mpi", feature = "shm", feature = "tcp"))]
mod joined;
mod kind;
#[cfg(feature = "shared-memory")]
mod provider;
#[cfg(feature = "shared-memory")]
mod region;

pub mod topology;

pub use comm_factory::local::LocalBackend;
pub use comm_factory::{per_rank_counts, prefix_displs};

pub use backend::{CommBackend, create_communicator};
pub use communicator::{CommData, Communicator};
pub use error::{BackendError, CommError};
pub use kind::{BackendKind, ReduceOp, available_backends};
pub use topology::{ExecutionTopology, HostInfo, MpiRuntimeInfo, SlurmJobInfo, TopologyProvider};

#[cfg(feature = "mpi")]
pub use joined::FerrompiBackend;
#[cfg(feature = "shm")]
pub use joined::ShmBackend;
#[cfg(feature = "tcp")]
pub use joined::TcpBackend;
#[cfg(all(feature = "mpi", feature = "shared-memory"))]
pub use region::FerrompiLocalComm;
#[cfg(feature = "shared-memory")]
pub use region::{
    HeapRegion, LocalCommKind, LocalCommunicator, NodeComm, SharedMemoryProvider, SharedRegion,
};
