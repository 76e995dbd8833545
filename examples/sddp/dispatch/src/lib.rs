//! What the solver `sddp` solves, on one rank: the case, the dispatch of one stage, and its linear programs.
//!
//! Nothing here communicates, so it is compiled once for all sets of backends.

#![allow(
    clippy::len_without_is_empty,
    clippy::must_use_candidate,
    clippy::new_without_default,
    reason = "for one program, not for strangers"
)]

pub mod cuts;
pub mod hash;
pub mod lp;
pub mod model;
pub mod noise;
pub mod subproblem;
