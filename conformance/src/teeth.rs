//! A way for the tests of this crate to run one case on a wrong communicator.
//!
//! Not public: a backend has [`main`](crate::main).

use std::process::ExitCode;
use std::sync::Arc;

use crate::chaos::{Round, Theme};
use crate::driver::{Job, Options};
use crate::orders::{Orders, Placement};
use crate::subject::Subject;
use crate::{driver, rank, rank_cases, suite};

/// Gives the name of the subject this process was started as a rank of, if it was.
#[must_use]
pub fn ordered_subject() -> Option<String> {
    Some(Orders::from_env()?.ok()?.subject)
}

/// Runs this process as a rank of `S`.
#[must_use]
pub fn rank_role<S: Subject>() -> ExitCode {
    match Orders::from_env() {
        Some(Ok(orders)) => rank::main(&rank_cases::<S>(), &orders),
        _ => driver::usage("this process was not started as a rank"),
    }
}

/// Runs one case in one world, with ranks that are told to be of `subject`, and gives what went
/// wrong.
///
/// # Errors
///
/// If the case fails, which is what is wanted of a wrong communicator.
///
/// # Panics
///
/// If there is no such case: then nothing was shown.
pub fn run_case<S: Subject>(
    subject: &'static str,
    case: &str,
    world: usize,
    threads: bool,
) -> Result<(), String> {
    let mut cases = suite::cases::<S>().into_iter();
    let Some(case) = cases.find(|known| known.name == case) else {
        panic!("there is no case '{case}'");
    };
    let placement = if threads {
        Placement::Threads
    } else {
        Placement::Processes
    };
    let job = Job::new::<S>(Arc::new(case), world, placement, &Options::default());
    job.of(subject).run().map(drop)
}

/// Runs a round of one kind of violence, with ranks that are told to be of `subject`.
///
/// # Errors
///
/// What went wrong in the round, which is what is wanted of a wrong communicator.
///
/// # Panics
///
/// If there is no such violence: then nothing was shown.
pub fn run_chaos<S: Subject>(
    subject: &'static str,
    violence: &str,
    world: usize,
    seed: u64,
) -> Result<(), String> {
    let theme = match Theme::parse(violence) {
        Ok(theme) => theme,
        Err(reason) => panic!("{reason}"),
    };
    let round = Round::new::<S>(theme, seed, world);
    round.of(subject).run().map(drop)
}
