//! What every backend needs and none should write again.
//!
//! For authors of backends; programs never name this crate. A backend written on it is a transport,
//! a start-up, and what it promises:
//!
//! | for | look at |
//! |---|---|
//! | one call from its entry to its error | [`Gate`], [`Transport`], [`Pass`] |
//! | what ranks compare before they exchange anything | [`Call`] |
//! | what a language without types compares beyond that | [`Label`] |
//! | every sentence of an error | [`words`] |
//! | timers that a suspended job survives | [`clock`] |
//! | spinning, yielding and sleeping until something comes | [`wait`] |
//! | a blocked rank that its language can interrupt | [`interrupt`] |
//! | the phases of a shared region | [`Phases`] |
//! | a region of a rank that shares memory with nobody | [`HeapRegion`] |
//! | who created a gathered region, which part is whose, and creating it on all ranks or none | [`Origin`], [`Parts`] |
//! | variables, checks, and why a start failed | [`config`], [`InitError`] |
//! | an end of the process that hears its exit code | [`exit`] |
//! | which machine this is | [`host`] |
//! | which launcher started this process | [`launcher`] |
//! | the first cause of a rank, for its launcher | [`report`](mod@report) |
//! | which variables there are, and what a misspelt name was meant to be | [`variables`], [`nearest`] |
//! | how much memory there is, asked before a large allocation | [`memory`] |
//! | which processors there are to use | [`processors`] |
//! | the file that holds the secret of a job | [`secret_file`] |
//! | where segments of shared memory are found, and which are stale | [`segments`] |
//!
//! Architecture invariant: this crate does no communication and knows no backend. Its only `unsafe`
//! code is the page of [`Owner`] and the hook of [`exit`].

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod call;
mod fork;
mod gate;
mod gathered;
mod heap;
mod init;
mod label;
mod near;
mod phase;

pub mod clock;
pub mod config;
pub mod control_group;
pub mod exit;
pub mod host;
pub mod interrupt;
pub mod launcher;
pub mod memory;
pub mod processors;
pub mod report;
pub mod secret_file;
pub mod segments;
pub mod variables;
pub mod wait;
pub mod words;

pub use call::Call;
pub use fork::{Beacon, Owner};
pub use gate::{Gate, Pass, Transport, exit_code, report_while_unwinding};
pub use gathered::{CommId, Origin, Parts};
pub use heap::HeapRegion;
pub use init::{InitError, InitErrorKind};
pub use label::Label;
pub use near::nearest;
pub use phase::{Ended, Phases};
