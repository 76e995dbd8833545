//! Collective communication as a contract: the traits that programs call and backends implement.
//!
//! A distributed program is written once, generic over its communicator, and gives the same bits
//! in one process, on many processes of one machine, over TCP and on MPI:
//!
//! ```
//! use comm_api::{CommError, Communicator, ReduceOp, SharedMemoryProvider, SharedRegion};
//!
//! fn train<C: Communicator + SharedMemoryProvider>(comm: &C) -> Result<f64, CommError> {
//!     let mut case = comm.create_shared_region::<f64>(1000)?;
//!     if comm.is_leader() {
//!         case.as_mut_slice().fill(0.5);
//!     }
//!     case.fence()?;
//!
//!     let mine: f64 = case.as_slice().iter().skip(comm.rank()).step_by(comm.size()).sum();
//!     let mut bound = [0.0];
//!     comm.allreduce(&[mine], &mut bound, ReduceOp::Sum)?;
//!     Ok(bound[0])
//! }
//!
//! # fn main() -> Result<(), CommError> {
//! assert_eq!(train(&comm_local::LocalBackend)?, 500.0);
//! # Ok(())
//! # }
//! ```
//!
//! | for | look at |
//! |---|---|
//! | programs | [`Communicator`], [`CommunicatorExt`], [`SharedMemoryProvider`], [`SharedRegion`] |
//! | data | [`Blocks`], [`CommData`], [`Reduce`], [`ReduceOp`] |
//! | errors | [`CommError`], [`FailureKind`], [`Scope`], [`Operation`], [`Argument`], [`Place`] |
//! | backend authors | the byte level of [`Communicator`], [`check`], [`Label`], and the crate `comm-kit` |
//!
//! Generic code is compiled for the one backend it is called with. [`Communicator`] is also
//! object-safe: `Box<dyn Communicator>`, `Arc<dyn Communicator>` and `&dyn Communicator` are
//! communicators themselves, so they work with the same generic code. On a plain
//! `comm: &dyn Communicator` the compiler looks for the typed methods on the object, which has
//! none, and reports an error; `(&comm).allreduce(..)` calls the method on the reference:
//!
//! ```
//! use comm_api::{CommError, Communicator, ReduceOp};
//!
//! fn total(comm: &dyn Communicator, mine: f64) -> Result<f64, CommError> {
//!     let mut sum = [0.0];
//!     (&comm).allreduce(&[mine], &mut sum, ReduceOp::Sum)?;
//!     Ok(sum[0])
//! }
//!
//! # fn main() -> Result<(), CommError> {
//! assert_eq!(total(&comm_local::LocalBackend, 2.5)?, 2.5);
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: this crate knows no backend, contains no `unsafe` code, opens no file and
//! does no communication.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod blocks;
mod communicator;
mod element;
mod error;
mod ext;
mod fold;
mod label;
mod op;
mod operation;
mod place;
mod region;

pub mod check;
#[doc(hidden)]
pub mod memory;

pub use bytemuck;

pub use blocks::Blocks;
pub use communicator::Communicator;
pub use element::{CommData, Reduce};
pub use error::{Argument, CommError, FailureKind, Scope};
pub use ext::CommunicatorExt;
pub use label::Label;
pub use op::{ReduceOp, ScalarKind};
pub use operation::Operation;
pub use place::Place;
pub use region::{SharedMemoryProvider, SharedRegion};
