//! Runs what CI runs.

use crate::test::{self, Test};

/// Runs the steps of `cargo xtask test`; returns whether they succeeded.
///
/// What passes on a desk passes in CI because there is one list of steps, not two.
pub(crate) fn run(arguments: &Test) -> bool {
    test::run(arguments)
}
