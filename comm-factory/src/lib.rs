//! Creates a communicator in one line, however the program was started.
//!
//! ```
//! use comm_factory::api::{CommError, Communicator, CommunicatorExt, ReduceOp};
//!
//! fn work<C: Communicator>(comm: &C) -> Result<u64, CommError> {
//!     comm.allreduce_scalar(comm.rank() as u64 + 1, ReduceOp::Sum)
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = comm_factory::create_communicator()?;
//! println!("the sum of all ranks on {} is {}", comm.name(), work(&comm)?);
//! # Ok(())
//! # }
//! ```
//!
//! The features `mpi`, `tcp` and `shm` compile a backend in (`local` always is); the environment chooses
//! among those that are there, see [`select`]. Features only add: the return type is [`CommBackend`] with
//! any set of them.
//!
//! Architecture invariant: only this crate knows more than one backend.

#![warn(clippy::print_stdout, clippy::print_stderr)]
// Makes docs.rs show which feature an item needs.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod backend;
mod create;
mod error;
mod kind;
mod launcher;
mod layout;
mod name;
mod region;
mod select;
mod topology;

/// The traits and types of `comm-api`.
pub mod api {
    // Not `pub use comm_api as api`: with such a renamed crate, the compiler proposes to import its traits from
    // `comm_factory::comm_api`, which does not exist.
    #[doc(no_inline)]
    pub use comm_api::*;
}

pub use comm_local as local;
#[cfg(feature = "mpi")]
pub use comm_mpi as mpi;
#[cfg(feature = "shm")]
pub use comm_shm as shm;
#[cfg(feature = "tcp")]
pub use comm_tcp as tcp;

pub use backend::CommBackend;
pub use create::{create_communicator, create_communicator_with};
pub use error::BackendError;
pub use kind::{BackendKind, available_backends};
pub use layout::{per_rank_counts, prefix_displs};
pub use name::Name;
pub use region::CommRegion;
pub use select::{Filled, Selection, Variables, environment, select};
pub use topology::{Host, MpiLibrary, SlurmJob, Topology};
