//! How a rank waits, and what ends a wait.

pub mod clock;
pub mod interrupt;
pub mod wait;
