//! How a rank ends, and what its launcher hears of it.

pub mod exit;
pub mod report;
