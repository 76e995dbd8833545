//! Prints what happened: one line per round, and a table at the end.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Duration;

use super::fault::Fault;
use super::round::Round;

/// Sums up the rounds.
#[derive(Debug, Default)]
pub(super) struct Log {
    faults: BTreeMap<Fault, Row>,
}

#[derive(Debug, Default)]
struct Row {
    rounds: usize,
    failed: usize,
    told: Option<Duration>,
}

impl Log {
    pub(super) const HEADER: &str = "seed         world      time  result  plan";

    /// Prints a round and counts it.
    pub(super) fn round(
        &mut self,
        out: &mut impl Write,
        round: &Round,
        time: Duration,
        result: &Result<Option<Duration>, String>,
    ) -> io::Result<()> {
        let row = self.faults.entry(round.plan().fault).or_default();
        row.rounds += 1;
        row.failed += usize::from(result.is_err());
        row.told = row.told.max(result.as_ref().ok().copied().flatten());
        let mark = if result.is_ok() { "ok" } else { "FAILED" };
        writeln!(
            out,
            "{:<12} {:<5} {:>7.3} s  {mark:<6}  {}",
            round.seed(),
            round.world(),
            time.as_secs_f64(),
            round.plan(),
        )?;
        out.flush()
    }

    /// Prints the table; returns whether nothing failed.
    pub(super) fn summary(&self, out: &mut impl Write, time: Duration) -> io::Result<bool> {
        writeln!(
            out,
            "\n{:<23} {:>6} {:>6}  slowest to be told",
            "fault", "rounds", "failed"
        )?;
        for (fault, row) in &self.faults {
            let told = row.told.map_or("-".to_owned(), |told| {
                format!("{:.1} ms", told.as_secs_f64() * 1e3)
            });
            let (name, rounds, failed) = (fault.name(), row.rounds, row.failed);
            writeln!(out, "{name:<23} {rounds:>6} {failed:>6}  {told}")?;
        }
        let sum = |part: fn(&Row) -> usize| self.faults.values().map(part).sum::<usize>();
        let (rounds, failed) = (sum(|row| row.rounds), sum(|row| row.failed));
        writeln!(
            out,
            "\n{rounds} rounds in {:.1} s, {failed} failed",
            time.as_secs_f64()
        )?;
        Ok(failed == 0)
    }
}
