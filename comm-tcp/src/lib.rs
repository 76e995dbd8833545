//! The TCP backend: many machines or containers, nothing to install, and no access for strangers.
//!
//! [`TcpBackend::connect`] connects the ranks of a job; from then on they are a
//! [`Communicator`](comm_api::Communicator) like any other:
//!
//! ```no_run
//! use comm_api::{CommunicatorExt, ReduceOp};
//! use comm_tcp::{TcpBackend, TcpConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let comm = TcpBackend::connect(TcpConfig::from_env()?)?;
//! let total = comm.allreduce_scalar(1.0_f64, ReduceOp::Sum)?;
//! # Ok(())
//! # }
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `config`, `variables`, `secret`, `encryption` | what a user sets |
//! | `handshake`, `frame`, `notice` | what travels, as pure functions of bytes |
//! | `rendezvous`, `listen`, `inherited` | how the ranks find each other |
//! | `link`, `socket`, `seal` | moving bytes without waiting, encrypted or not |
//! | `engine`, `patience` | the one loop that waits |
//! | `collective` | the calls |
//! | `watch` | the failure detector: how all learn the first cause of a failure |
//! | `fuzzing`, `traffic` | what tests outside the crate look at |
//!
//! Architecture invariant: one thread, on rank 0, that owns the watch links: the failure detector of the job. Everything else runs in
//! the calls of the program, but for what may block: a log, a name server, a secret file. No asynchronous runtime.
//!
//! Architecture invariant: a rank never stops reading because it cannot write.

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod collective;
mod communicator;
mod config;
mod descriptors;
mod encryption;
mod engine;
mod error;
mod frame;
#[doc(hidden)]
pub mod fuzzing;
mod handshake;
mod inherited;
mod link;
mod listen;
mod member;
mod notice;
mod poll;
mod region;
mod rendezvous;
mod seal;
mod secret;
#[cfg(test)]
mod sim;
mod socket;
#[doc(hidden)]
pub mod traffic;
mod variables;
mod watch;

pub use communicator::TcpBackend;
pub use config::TcpConfig;
pub use encryption::Encryption;
pub use error::{InitError, InitErrorKind};
