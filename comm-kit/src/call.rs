//! One call, from its entry to its error.

pub(crate) mod fingerprint;
pub(crate) mod gate;
pub(crate) mod owner;
pub mod words;
