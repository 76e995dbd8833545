//! What regions have in common, whatever memory they are in.

pub(crate) mod gathered;
pub(crate) mod heap;
pub(crate) mod phase;
