//! From the variables of the environment to a configuration that can be used.

pub mod config;
pub(crate) mod init;
pub mod launcher;
pub(crate) mod near;
pub mod secret_file;
pub mod variables;
