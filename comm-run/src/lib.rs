//! Starts the ranks of a job on this machine, watches them, and leaves nothing behind.
//!
//! A [`Job`] describes what to start. [`Job::run`] waits for the end; [`Job::start`] returns a
//! [`Running`] job whose [`Handle`] signals single ranks or stops the whole from any thread. The
//! [`Outcome`] holds how every rank ended, which failed first, and the last lines of each.
//!
//! # What is promised
//!
//! - **Whole lines.** Each line of each rank arrives whole at the [`Sink`], untouched; a slow sink
//!   slows the ranks and loses nothing. A line is split only above 64 MiB, and marked.
//! - **First cause.** The first rank to fail is kept as the cause. The others get 500 ms to report
//!   it, then `SIGTERM`, and 500 ms later `SIGKILL`; with [`OnFailure::LetOthersFinish`] they go on
//!   until the deadline.
//! - **Nothing survives.** Each rank leads a process group of its own, and the group ends with the
//!   rank: what a rank leaves running in it may finish writing for at most 500 ms, then it is
//!   killed, after a normal end too. The same holds when the starter dies, by `SIGKILL` too: the
//!   parent-death signal ends the ranks at once (Linux), and a warden, a small shell that notices
//!   the starter's end, kills the groups (everywhere).
//! - **No segment stays.** Once its ranks are gone the job's name is removed from `/dev/shm`, however
//!   it ended; when the starter is killed the warden removes it. A `COBRE_SHM_NAME` that the job was
//!   given with [`Job::env`] is left to whoever chose it: another job may have it.
//! - **No other process is hit.** A rank is reaped after the last signal to its group, so its number
//!   cannot belong to another process by then.
//!
//! A process that leaves its rank's group on purpose (`setsid`, a shell with job control) is on its
//! own.
//!
//! Architecture invariant: knows no backend, and of the environment contract only the variables
//! that it sets. Only the program `comm-run` asks comm-factory, to explain its choice.

mod environment;
mod error;
mod escalation;
mod forward;
mod job;
mod launch;
mod logs;
mod node;
mod outcome;
mod output;
mod prepare;
mod processors;
mod ranks;
mod running;
mod segment;
mod signal;
mod sink;
mod spawn;
mod supervise;
mod tail;
mod tasks;
mod terminal;
mod warden;

pub use environment::{Link, Seat, Secret, Variables, environment, without_identity};
pub use error::StartError;
pub use escalation::OnFailure;
pub use job::Job;
pub use logs::Logs;
pub use node::{Backend, Node};
pub use outcome::{Ending, Exit, Outcome, RankOutcome};
pub use prepare::RankPlan;
pub use running::{Handle, Running};
pub use signal::Signal;
pub use sink::{Line, LineEnd, Sink, Stream};
pub use tail::LastLine;
pub use terminal::Terminal;

/// Keeps the examples of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
