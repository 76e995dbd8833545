//! The backend of clusters: ranks under an MPI library, with the same bits as every other backend.
//!
//! [`FerrompiBackend`] implements the traits of `comm-api` through `ferrompi`, on the MPI library of the
//! cluster. The MPI launcher starts the ranks and gives each its rank and size:
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
//! | call | implementation |
//! |---|---|
//! | `barrier`, `broadcast`, `allgatherv` | the MPI call of that name, in pieces where a count exceeds `i32::MAX` |
//! | `allreduce` of integers | `MPI_Allreduce`, where the libraries agree on the result |
//! | `allreduce` of floats | an exchange, and the fold in rank order that all backends share |
//! | regions | memory of the node, from `comm-shm`: no windows |
//!
//! | what happens | what follows |
//! |---|---|
//! | a rank exits with a code other than 0, or panics | `MPI_Abort` ends the job, with that code |
//! | a rank is killed | the launcher ends the job |
//! | a rank calls something else, or passes invalid arguments | with [`check`](MpiConfig::check) an error on all ranks; without it, what MPI does: a hang, or a wrong result |
//! | a rank never enters a call, or drops its communicator | with [`check`](MpiConfig::check) an error on the others that names the rank; without it they hang |
//! | MPI reports an error | that error, and the same error on every later call |
//!
//! Architecture invariant: no unsafe code. MPI's memory accesses are behind the safe calls of `ferrompi`, and
//! shared memory is behind those of `comm-shm`. No drop waits for another rank.

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
