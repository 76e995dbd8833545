//! Tests communicating programs within one process.
//!
//! | for | look at |
//! |---|---|
//! | a program on several ranks | [`threads`], or [`threads_within`] to set a timeout |
//! | results and failures of your choice | [`Script`] |
//! | one rank of a world of threads, with its regions | [`Reference`] |
//! | a test that cannot run here | [`not_run()`] |
//! | what a started program would inherit | [`inherited()`] |
//! | a test that might hang | [`watchdog()`], [`unwatched`] |
//!
//! ```
//! use comm_api::{CommError, Communicator, ReduceOp};
//!
//! fn largest<C: Communicator>(comm: &C, mine: f64) -> Result<f64, CommError> {
//!     let mut most = [0.0];
//!     comm.allreduce(&[mine], &mut most, ReduceOp::Max)?;
//!     Ok(most[0])
//! }
//!
//! let found = comm_testing::threads(3, |comm| largest(comm, comm.rank() as f64));
//! assert_eq!(found, [Ok(2.0), Ok(2.0), Ok(2.0)]);
//! ```
//!
//! Architecture invariant: for tests only. The code is meant to be obviously correct, not fast.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod inherited;
mod not_run;
pub mod reference;
mod script;
mod threads;
mod watchdog;

pub use inherited::inherited;
pub use not_run::not_run;
pub use reference::{Reference, ReferenceRegion};
pub use script::Script;
pub use threads::{threads, threads_within};
pub use watchdog::{unwatched, watchdog};

/// Keeps the examples of the README correct.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
