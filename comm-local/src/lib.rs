//! The backend of one process: nothing to install, nothing to configure.
//!
//! [`LocalBackend`] is a communicator of size 1. Collectives that are identities copy, those that are no-ops
//! do nothing, and all make the checks that every backend makes, so that a program that runs here passes
//! valid arguments everywhere:
//!
//! | call | effect |
//! |---|---|
//! | `allgatherv`, `allreduce` | checks the arguments, and copies `send` to `recv` |
//! | `broadcast` | checks the arguments |
//! | `barrier`, `rank`, `size` | no code after inlining |
//!
//! Its regions are [`HeapRegion`]s, which keep the phases of a shared region on the heap of one rank.
//!
//! ```
//! use comm_api::{Communicator, CommunicatorExt, ReduceOp};
//! use comm_local::LocalBackend;
//!
//! # fn main() -> Result<(), comm_api::CommError> {
//! let comm = LocalBackend::new();
//! assert_eq!((comm.rank(), comm.size()), (0, 1));
//! assert_eq!(comm.allreduce_scalar(1.5, ReduceOp::Sum)?, 1.5);
//! # Ok(())
//! # }
//! ```

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod communicator;

pub use comm_kit::HeapRegion;
pub use communicator::LocalBackend;
