//! Sums and dot products with the same bits for 1 rank and for 1 000.
//!
//! An `allreduce` of `f64` folds in rank order, so its bits are the same on every backend. But a sum of
//! partial sums depends on the number of ranks and threads, because each partial sum is rounded. [`ExactSum`]
//! does not round: it adds to integer digits that are wide enough for every `f64`, and merges accumulators
//! with an `allreduce` of integers, whose result does not depend on the order.
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
//! Architecture invariant: this crate depends only on `comm-api`, contains no `unsafe` code, and computes
//! with integers only.

mod bins;
mod digits;
mod reduce;
mod sum;

pub use reduce::exact_sums;
pub use sum::ExactSum;
