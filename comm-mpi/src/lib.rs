//! The backend of clusters: ranks under an MPI library, through `ferrompi`.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod call;
mod chunk;
mod collective;
mod communicator;
mod config;
mod element;
mod entry;
mod error;
mod init;
mod launcher;
mod life;
mod node;
mod ranks;
mod region;

pub use communicator::FerrompiBackend;
pub use config::{MpiConfig, MpiReduce};
pub use error::{InitError, InitErrorKind};
pub use region::FerrompiRegion;
