//! The building blocks that all backends share.
//!
//! For authors of backends; programs never name this crate. A backend built on it adds a transport, a start-up and its
//! own guarantees:
//!
//! | folder | for | look at |
//! |---|---|---|
//! | `call` | one call from its entry to its error | [`Gate`], [`Transport`], [`Pass`] |
//! | | what ranks compare before they exchange anything | [`Call`] |
//! | | the messages of all errors | [`words`] |
//! | | which process may use a communicator: not a forked child | [`Owner`], [`Beacon`] |
//! | `waiting` | timers that a suspended job survives | [`clock`] |
//! | | spinning, yielding and sleeping until an event arrives | [`wait`] |
//! | | a hook through which the calling language interrupts a blocked rank | [`interrupt`] |
//! | `region` | the phases of a shared region | [`Phases`] |
//! | | a region of a rank that shares memory with no other rank | [`HeapRegion`] |
//! | | the origin and the parts of a gathered region, and creating it on all ranks or none | [`Origin`], [`Parts`] |
//! | `start` | variables, checks, and why a start failed | [`config`], [`InitError`] |
//! | | which launcher started this process | [`launcher`] |
//! | | all variables, and suggestions for misspelt names | [`variables`], [`nearest`] |
//! | | the file that holds the secret of a job | [`secret_file`] |
//! | `end` | a hook that runs with the exit code of the process | [`exit`] |
//! | | the first cause of a rank, for its launcher | [`report`](mod@report) |
//! | `machine` | which machine this is | [`host`] |
//! | | how much memory there is, asked before a large allocation | [`memory`] |
//! | | which processors this process may use | [`processors`] |
//! | | the limits of the control group | [`control_group`] |
//! | | where segments of shared memory are found, and which are stale | [`segments`] |
//!
//! Architecture invariant: this crate does no communication and knows no backend. Its only `unsafe`
//! code is the page of [`Owner`] and the hook of [`exit`].

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod call;
mod end;
mod machine;
mod region;
mod start;
mod waiting;

pub use call::fingerprint::Call;
pub use call::gate::{Gate, Pass, Transport, exit_code, report_while_unwinding};
pub use call::owner::{Beacon, Owner};
pub use call::words;
pub use end::{exit, report};
pub use machine::{control_group, host, memory, processors, segments};
pub use region::gathered::{CommId, Origin, Parts};
pub use region::heap::HeapRegion;
pub use region::phase::{Ended, Phases};
pub use start::init::{InitError, InitErrorKind};
pub use start::near::nearest;
pub use start::{config, launcher, secret_file, variables};
pub use waiting::{clock, interrupt, wait};
