//! A whole run: finds the contenders, builds the programs, and runs all contests.

use std::thread::available_parallelism;

use super::Bench;
use super::build::Programs;
use super::contest::{self, Results};
use super::plan::{self, Contest};
use super::progress;
use super::record::Record;

/// Everything that a run needs.
pub(super) struct Campaign {
    programs: Programs,
    pub(super) cores: usize,
    /// Describes the run, in one line.
    pub(super) heading: String,
    contests: Vec<Contest>,
}

impl Campaign {
    /// Builds the programs, finds the peers, and prints what will run.
    pub(super) fn prepare(bench: &Bench) -> Result<Self, String> {
        let programs = Programs::build(bench)?;
        let peers = plan::peers(bench, &programs)?;
        let cores = available_parallelism().map_err(|why| format!("no processors: {why}"))?;
        let cores = cores.get();
        let heading = plan::shown(bench, cores, &peers, &programs);
        println!("{heading}");
        let contests = plan::contests(bench, cores, &peers);
        Ok(Self {
            programs,
            cores,
            heading,
            contests,
        })
    }

    /// Runs all contests; after each of them, `keep` gets everything measured so far.
    pub(super) fn play(
        self,
        bench: &Bench,
        record: &mut Record,
        mut keep: impl FnMut(&[Results]) -> Result<(), String>,
    ) -> Result<Vec<Results>, String> {
        let figures = self.contests.iter().map(Contest::figures).sum::<usize>();
        let progress = progress::bar(figures * bench.rounds as usize);
        let mut results = Vec::new();
        for contest in self.contests {
            let played = contest::play(contest, bench, &self.programs, record, &progress)?;
            results.push(played);
            keep(&results)?;
        }
        Ok(results)
    }
}
