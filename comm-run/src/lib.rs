//! Starts the ranks of a job on this machine, watches them, and leaves nothing behind.
//!
//! A [`Job`] describes what to start. [`Job::run`] waits for the end; [`Job::start`] returns a
//! [`Running`] job whose [`Handle`] signals single ranks or stops the whole from any thread. The
//! [`Outcome`] holds how every rank ended, which failed first, and the last lines of each.
//!
//! # What is promised
//!
//! - **Whole lines.** Each line of each rank arrives whole at the [`Sink`], untouched; a slow sink
//!   slows the ranks and loses nothing, unless the job fails or is stopped: then its end waits for some seconds at most. A line arrives in pieces only if the sink wants to have it before it
//!   ends, as a [`Terminal`] does, or for the sake of memory: above 64 MiB, of one or of all ranks together.
//! - **First cause.** When a rank fails the others get 500 ms to report it, then `SIGTERM`, and 500 ms later `SIGKILL`; with
//!   [`OnFailure::LetOthersFinish`] they go on until the deadline. The cause is the rank that the others lost, as their backends
//!   report it, else the one that failed first.
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

// From a description to processes.
mod start;
// From the start of the ranks to the end of the last.
mod supervise;
// What the ranks write, and who gets it.
mod output;
// What became of the job, and which rank is the cause.
mod verdict;
// What the machine allows and tells.
mod host;

pub use output::lane::Text;
pub use output::logs::Logs;
pub use output::terminal::Terminal;
pub use output::write::{LateFile, write_fully};
pub use output::{Line, LineEnd, Sink, Stream};
pub use start::environment::{
    Link, Seat, Secret, Variables, environment, gives_a_place, without_identity,
};
pub use start::error::StartError;
pub use start::job::Job;
pub use start::node::{Backend, Node};
pub use start::prepare::RankPlan;
pub use supervise::escalation::OnFailure;
pub use supervise::running::Notice;
pub use supervise::running::{Handle, Running};
pub use supervise::signals::Signal;
pub use verdict::outcome::{Ending, Exit, NoRestart, Outcome, PeerReport, RankOutcome};
pub use verdict::tail::LastLine;

/// Keeps the examples of the README true.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
