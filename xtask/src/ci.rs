//! Runs the checks of CI.

use crate::test::{self, Test};

/// Runs the steps of `cargo xtask test`; returns whether they succeeded.
///
/// There is only one list of steps, so that a change that passes locally also passes in CI.
pub(crate) fn run(arguments: &Test) -> bool {
    test::run(arguments)
}
