//! A whole run: who takes part is found, the programs are built, and all contests are played.

use std::thread::available_parallelism;

use super::Bench;
use super::build::Programs;
use super::contest::{self, Results};
use super::plan::{self, Contest};
use super::progress;
use super::record::Record;

/// Holds what is ready to run.
pub(super) struct Campaign {
    programs: Programs,
    pub(super) cores: usize,
    /// Describes what runs, in one line.
    pub(super) heading: String,
    contests: Vec<Contest>,
}

impl Campaign {
    /// Builds the programs, finds the peers, and prints what is going to run.
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

    /// Plays all contests; `keep` gets everything measured so far after each of them.
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
