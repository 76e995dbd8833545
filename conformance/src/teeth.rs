//! A way for the tests of this crate to run one case on a wrong communicator.
//!
//! Not public: a backend has [`main`](crate::main).

use std::process::ExitCode;

use crate::driver::{Options, Plan};
use crate::orders::Orders;
use crate::subject::Subject;
use crate::{driver, rank, suite};

/// Gives the name of the subject this process was started as a rank of, if it was.
#[must_use]
pub fn ordered_subject() -> Option<String> {
    Some(Orders::from_env()?.ok()?.subject)
}

/// Runs this process as a rank of `S`.
#[must_use]
pub fn rank_role<S: Subject>() -> ExitCode {
    match Orders::from_env() {
        Some(Ok(orders)) => rank::main(&suite::cases::<S>(), &orders),
        _ => driver::usage("this process was not started as a rank"),
    }
}

/// Runs one case in one world and gives what went wrong.
///
/// # Errors
///
/// If the case fails, which is what is wanted of a wrong communicator.
///
/// # Panics
///
/// If there is no such case, or the model of `S` leaves it out: then nothing was shown.
pub fn run_case<S: Subject>(name: &str, world: usize) -> Result<(), String> {
    let mut cases = suite::cases::<S>();
    cases.retain(|case| case.name == name);
    let options = Options {
        worlds: vec![world],
        ..Options::default()
    };
    let plan = match Plan::new::<S>(cases, &options) {
        Ok(plan) => plan,
        Err(reason) => panic!("{name} in a world of {world}: {reason}"),
    };
    assert_eq!(plan.jobs.len(), 1, "{name} in a world of {world}");
    plan.jobs[0].run().map(drop)
}
