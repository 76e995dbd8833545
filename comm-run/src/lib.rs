//! Starts the ranks of a job on this machine, watches them, and leaves nothing behind.
//!
//! A [`Job`] describes what to start. [`Job::run`] waits for the end; [`Job::start`] returns a
//! [`Running`] job whose [`Handle`] signals single ranks or stops the whole job from any thread. The
//! [`Outcome`] holds how every rank ended, which failed first, and the last lines of each.
//!
//! # Guarantees
//!
//! - **Whole lines.** Each line of each rank arrives at the [`Sink`] whole and untouched. A slow sink slows the ranks down, and
//!   no line is lost unless the job fails or is stopped: then its end waits a few seconds for the sink at most.
//!   A line arrives in pieces only if the sink asks for the beginnings of unfinished lines, as a [`Terminal`] does, or to
//!   limit memory: above 64 MiB, of one rank or of all together.
//! - **First cause.** When a rank fails, the others get 500 ms to report it, then `SIGTERM`, and 500 ms later `SIGKILL`; with
//!   [`OnFailure::LetOthersFinish`] they continue until the deadline. The cause is the rank that the others lost, as their
//!   backends report it, otherwise the rank that failed first.
//! - **Nothing survives.** Each rank leads its own process group, and the group ends with the rank: processes that a rank leaves
//!   running in its group get at most 500 ms to finish writing and are then killed, also after a normal end. The same holds
//!   when the starter dies, even by `SIGKILL`: the parent-death signal ends the ranks at once (Linux), and a warden, a small
//!   shell that notices the end of the starter, kills the groups (everywhere).
//! - **No segment stays.** When all ranks are gone, the job's name is removed from `/dev/shm`, however the job ended; if the
//!   starter is killed, the warden removes the name. A `COBRE_SHM_NAME` set with [`Job::env`] is not removed, because another
//!   job may use it.
//! - **No other process is hit.** A rank is reaped only after the last signal to its group, so its process id cannot belong to
//!   another process when a signal is sent.
//!
//! A process that leaves its rank's group on purpose (`setsid`, a shell with job control) is not ended.
//!
//! Architecture invariant: this crate knows no backend, and of the environment contract only the variables
//! that it sets. Only the program `comm-run` depends on comm-factory, to explain its choice of a backend.

// Turns a description into processes.
mod start;
// Watches the ranks from the start to the end of the last one.
mod supervise;
// Passes the output of the ranks to the sinks.
mod output;
// Decides how the job ended and which rank is the cause.
mod verdict;
// Limits, processors and process information of the machine.
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

/// Compiles and runs the examples of the README as doctests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
