//! A single suite for every backend: the contract of `comm-api`, clause by clause.
//!
//! A backend joins with a [`Subject`] and a test without a harness, in under 30 lines:
//!
//! ```no_run
//! # use comm_conformance::{Failure, Model, Seat, Subject};
//! # use comm_conformance::reference::Reference as MyBackend;
//! # struct Mine;
//! # impl Subject for Mine {
//! #     type Comm = MyBackend;
//! #     const NAME: &'static str = "mine";
//! #     const MODEL: Model = Model::FULL;
//! #     fn open(seat: &Seat) -> Result<MyBackend, Failure> {
//! #         Ok(MyBackend::open(seat.name(), seat.rank(), seat.size(), seat.timeout())?)
//! #     }
//! # }
//! fn main() -> std::process::ExitCode {
//!     comm_conformance::main::<Mine>()
//! }
//! ```
//!
//! One binary has two roles. The driver starts itself again as the ranks of a job, which are real processes
//! or threads of one process, through [`comm_run`] or the [`Launcher`] of the backend; each (case, world) is
//! a separate job and test. A rank runs the case and reports to the driver through a file of its own. A job
//! passes if every process exits with 0, every rank has reported the rank and size that the driver assigned,
//! and every rank has finished. In cases about dying ranks, the ranks announce how they will leave, and must
//! leave that way.
//!
//! A backend cannot pick its cases. Its [`Model`] declares what it promises; everything else is listed as not
//! promised, with the reason.
//!
//! Architecture invariant: this crate knows no backend except its own reference.

mod board;
mod case;
mod chaos;
mod clause;
mod clock;
mod driver;
mod launcher;
mod model;
mod noise;
mod orders;
mod port;
mod program;
mod rank;
mod report;
mod run;
mod subject;
mod suite;

pub mod events;
#[doc(hidden)]
pub mod mutant;

use std::process::ExitCode;

#[doc(hidden)]
pub use comm_testing::reference;

pub use clause::Clause;
pub use launcher::Launcher;
pub use model::{Checks, Death, Early, Memory, Model, Opens, Ranks, Ruling, Shows, Worlds};
pub use subject::{Failure, Seat, Subject};

/// Runs the suite on a backend: the `main` of its `tests/conformance.rs`.
///
/// Understands the arguments of `cargo test` and `cargo nextest`, and these:
///
/// | argument | |
/// |---|---|
/// | `--table` | prints a table of clauses, cases, worlds, times and results |
/// | `--world N` | runs worlds of `N` ranks instead of 1, 2, 3, 4 and 8; may be repeated |
/// | `--case PATTERN` | runs the cases whose name contains the pattern |
/// | `--random N`, `--seed S` | runs `N` random programs, from seed `S` on |
/// | `--big` | also runs calls of more than 4 GiB, where there is memory for them |
/// | `--chaos` | runs random programs under faults instead of the suite, see the README |
#[must_use]
pub fn main<S: Subject>() -> ExitCode {
    main_in::<S>(&driver::WORLDS)
}

/// Runs the suite in these worlds, unless the arguments select others: for a second run of a backend with
/// other settings.
#[doc(hidden)]
#[must_use]
pub fn main_in<S: Subject>(worlds: &[usize]) -> ExitCode {
    match orders::Orders::from_env() {
        Some(Ok(orders)) => rank::main(&rank_cases::<S>(), &orders),
        Some(Err(reason)) => driver::usage(&reason),
        None if chaos::is_asked_for() => chaos::main::<S>(),
        None => driver::main::<S>(suite::cases::<S>(), worlds),
    }
}

/// Lists what a rank may be ordered to run: the suite, and the programs of chaos.
fn rank_cases<S: Subject>() -> Vec<case::Case> {
    let mut cases = suite::cases::<S>();
    cases.extend(chaos::cases::<S>());
    cases
}
