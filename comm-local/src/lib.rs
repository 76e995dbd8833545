//! The backend of one process: nothing to install, nothing to configure.
//!
//! [`LocalBackend`] is a communicator of size 1. What is an identity copies, what is a no-op does
//! nothing, and both make the checks that every backend makes, so that a program that runs here
//! has its arguments right everywhere:
//!
//! | call | does |
//! |---|---|
//! | `allgatherv`, `allreduce` | check, and copy `send` to `recv` |
//! | `broadcast` | check |
//! | `barrier`, `rank`, `size` | nothing that is left after inlining |
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
