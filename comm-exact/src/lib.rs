//! Sums and dot products with the same bits for 1 rank and for 1 000.
//!
//! An `allreduce` of `f64` folds in rank order, so its bits are the same on every backend. But a sum of partial sums changes with the
//! number of ranks and of threads, because each rounds. [`ExactSum`] does not round: it adds to integer digits, wide enough for every
//! `f64`, and merging accumulators is an `allreduce` of integers, which no order can change.
//!
//! ```
//! use comm_api::{CommError, Communicator};
//! use comm_exact::ExactSum;
//!
//! fn total<C: Communicator>(comm: &C, mine: &[f64]) -> Result<f64, CommError> {
//!     let mut sum = ExactSum::new();
//!     sum.extend(mine);
//!     Ok(sum.allreduce(comm)?.value())
//! }
//!
//! # fn main() -> Result<(), CommError> {
//! assert_eq!(total(&comm_local::LocalBackend, &[1e16, 1.0, -1e16, 0.5])?, 1.5);
//! # Ok(())
//! # }
//! ```
//!
//! Architecture invariant: this crate stands on `comm-api` alone, holds no `unsafe`, and computes with integers only.

mod bins;
mod digits;
mod reduce;
mod sum;

pub use reduce::exact_sums;
pub use sum::ExactSum;
