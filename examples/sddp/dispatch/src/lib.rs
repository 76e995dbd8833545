//! The part of the solver `sddp` that runs on one rank: the case, the dispatch of one stage, and its linear programs.
//!
//! This crate does not communicate, so it is compiled once for all sets of backends.

#![allow(
    clippy::len_without_is_empty,
    clippy::must_use_candidate,
    clippy::new_without_default,
    reason = "an internal crate of one program"
)]

pub mod cuts;
pub mod hash;
pub mod lp;
pub mod model;
pub mod noise;
pub mod subproblem;
