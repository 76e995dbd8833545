//! The machine: its limits, its processors, and what it reports about processes.

pub(crate) mod descriptors;
pub(crate) mod proc;
pub(crate) mod processors;
