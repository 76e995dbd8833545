//! What this machine is and has.

pub mod control_group;
pub mod host;
pub mod memory;
pub mod processors;
pub mod segments;
