//! The inputs of every pass.

use super::lp::Unsolved;
use super::model::Case;

/// The case, and the settings of this run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) threads: usize,
    /// A rank whose solver fails in the second iteration, so that tests see the effect on the others.
    pub(crate) inject_error: Option<usize>,
}

impl Work<'_> {
    /// Returns the message about a program that could not be solved, and what to do.
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
            Unsolved::Stuck => {
                format!("{place}: {why}; please report this, and use another --seed meanwhile")
            }
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
