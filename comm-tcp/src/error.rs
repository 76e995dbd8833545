//! Why a rank could not join its job: the error that all backends share.

pub use comm_kit::{InitError, InitErrorKind};
