//! Shows the library at work.

use crate::process::{self, cargo};
use crate::report::Outcome;

/// Runs the program that the README shows; returns whether it succeeded.
pub(crate) fn run() -> bool {
    match process::run(&mut cargo(&[
        "run",
        "--quiet",
        "--package",
        "comm-local",
        "--example",
        "quickstart",
    ])) {
        Outcome::Passed => true,
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            eprintln!("demo: {reason}");
            false
        }
    }
}
