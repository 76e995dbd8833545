//! The backend of clusters: ranks under an MPI library, with the same bits as every other backend.
//!
//! [`FerrompiBackend`] implements the traits of `comm-api` through `ferrompi`, on whichever MPI the
//! cluster has. The launcher of MPI starts the ranks and tells each who it is:
//!
//! ```no_run
//! use comm_api::{Communicator, ReduceOp};
//! use comm_mpi::{FerrompiBackend, MpiConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = FerrompiBackend::init(MpiConfig::from_env()?)?;
//! let mut sum = [0.0];
//! comm.allreduce(&[0.1 * comm.rank() as f64], &mut sum, ReduceOp::Sum)?;
//! # Ok(())
//! # }
//! ```
//!
//! | call | becomes |
//! |---|---|
//! | `barrier`, `broadcast`, `allgatherv` | the call of MPI of that name, in pieces where a count exceeds `i32::MAX` |
//! | `allreduce` of integers | `MPI_Allreduce`, where the libraries agree on the result |
//! | `allreduce` of floats | an exchange, and the fold in rank order that all backends share |
//! | regions | memory of the node, from `comm-shm`: no windows |
//!
//! | what happens | what follows |
//! |---|---|
//! | a rank exits with a code other than 0, or panics | `MPI_Abort` ends the job, with that code |
//! | a rank is killed | the launcher ends the job |
//! | it calls something else, or refuses its arguments | with [`check`](MpiConfig::check) an error on all ranks; without it, what MPI does: a hang, or a wrong result |
//! | it does not come to a call, or drops its communicator | with [`check`](MpiConfig::check) an error on the others that names it; without it they wait for ever |
//! | MPI reports an error | that error, and the same on every later call |
//!
//! Architecture invariant: no unsafe code. What MPI does with memory is behind the safe calls of
//! `ferrompi`, and what ranks share is behind those of `comm-shm`. No drop waits for another rank.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod chunk;
mod collective;
mod communicator;
mod config;
mod element;
mod end;
mod entry;
mod error;
mod gathered;
mod init;
mod launcher;
mod life;
mod node;
mod patience;
mod ranks;
mod region;
mod runtime;

pub use communicator::FerrompiBackend;
pub use config::{MpiConfig, MpiReduce};
pub use error::{InitError, InitErrorKind};
pub use region::FerrompiRegion;
pub use runtime::MpiRuntime;
