//! How a rank ends, and what it reports to its launcher.

pub mod exit;
pub mod report;
