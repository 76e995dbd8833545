//! What every pass needs to know.

use super::lp::Unsolved;
use super::model::Case;

/// The case, and how this run treats it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) threads: usize,
    /// A rank whose solver fails in the second iteration, so that tests see what the others do.
    pub(crate) inject_error: Option<usize>,
}

impl Work<'_> {
    /// Returns what could not be solved, and what to do about it.
    pub(crate) fn explain(
        &self,
        why: Unsolved,
        iteration: usize,
        stage: usize,
        scenario: usize,
        opening: usize,
    ) -> String {
        let place = format!(
            "iteration {}, stage {}, scenario {scenario}, opening {opening}",
            iteration + 1,
            stage + 1
        );
        match why {
            Unsolved::Infeasible => format!(
                "{place}: there is no dispatch that serves {:.4} % of the demand; raise --deficit-limit",
                100.0 * (1.0 - self.case.header.deficit_limit)
            ),
            Unsolved::Stuck => format!("{place}: {why}; run it with another --seed, and report it"),
        }
    }

    /// Fails if this rank is the one whose solver fails.
    pub(crate) fn injected(&self, rank: usize, iteration: usize) -> Result<(), String> {
        if self.inject_error == Some(rank) && iteration == 1 {
            return Err("solver error injected by --inject-error in iteration 2".to_owned());
        }
        Ok(())
    }
}
