//! How a job ended, and which rank is the cause. The first rank to exit often is not: a rank that panics still writes its
//! backtrace when the ranks that lost it have already exited.
//!
//! | module | what |
//! |---|---|
//! | `outcome` | how the job and each rank ended, and the exit code |
//! | `reports` | what the ranks reported of each other |
//! | `tail`, `panic` | the last lines of a rank, and the panics that are not among them |
//!
//! # The cause
//!
//! A pure function of what is known when the job has ended. The first line that applies wins:
//!
//! | line | the cause |
//! |---|---|
//! | 1 | a rank that others name and that names none itself; among these, one that a signal killed or that panicked before one that exited |
//! | 2 | a rank that a signal killed or that panicked, and that names none |
//! | 3 | a rank that failed after it passed invalid arguments, and has called nothing since |
//! | 4 | a rank that failed and names none |
//! | 5 | a rank that failed and names another |
//!
//! A refusal is weak evidence, because a program may continue after it: it counts only if the rank that reports it has failed by
//! itself, and a rank that others have lost can be the cause even if it names the rank that refused its call. Within one line of
//! this table, the cause is the lowest of the ranks that ended within 250 ms of the earliest.

pub(crate) mod outcome;
mod panic;
pub(crate) mod reports;
pub(crate) mod tail;

use std::time::Duration;

use comm_kit::report::{Report, What};

use crate::supervise::escalation::REPORT;
use crate::verdict::outcome::{Ending, Exit, Outcome, PeerReport, RankOutcome};

/// Ranks that end within this time count as having ended together: on a busy machine the launcher cannot tell them apart.
const TOGETHER: Duration = Duration::from_millis(250);
/// The exit code of a Rust panic.
const PANIC: Exit = Exit::Code(101);

/// Returns the outcome of a job from its ending, its ranks, numbered from `first_rank`, and their reports.
pub(crate) fn judge(
    first_rank: usize,
    ending: Ending,
    ranks: Vec<(RankOutcome, Option<Report>)>,
) -> Outcome {
    let evidence = |(rank, report): &(RankOutcome, Option<Report>)| {
        Evidence {
            exit: rank.exit,
            was_ended: rank.ended_by.is_some(),
            at: rank.elapsed,
            report: *report,
        }
        .settled()
    };
    let evidence: Vec<_> = ranks.iter().map(evidence).collect();
    let verdict = weigh(first_rank, &evidence);
    let unknown = |rank: &Evidence| rank.exit == Some(Exit::Unknown);
    let unknown = evidence.iter().position(unknown);
    let ending = match (ending, verdict) {
        (Ending::RankFailed(_), Some(verdict)) => Ending::RankFailed(verdict.cause),
        (Ending::Completed, _) if let Some(rank) = unknown => Ending::Unknown(rank),
        (ending, _) => ending,
    };
    let ranks = ranks.into_iter().zip(&evidence);
    let ranks = ranks.map(|((rank, _), evidence)| RankOutcome {
        report: evidence.report.map(PeerReport::from),
        ..rank
    });
    Outcome {
        first_rank,
        ranks: ranks.collect(),
        first_failure: verdict.map(|verdict| verdict.failed),
        named_by: match ending {
            Ending::RankFailed(cause) => named_by(first_rank, &evidence, cause),
            _ => Vec::new(),
        },
        alike: matches!(ending, Ending::RankFailed(_))
            && verdict.is_some_and(|verdict| verdict.alike),
        ..Outcome::new(ending)
    }
}

/// What is known of one rank.
#[derive(Debug, Clone, Copy)]
struct Evidence {
    /// How it ended.
    exit: Option<Exit>,
    /// Whether the launcher ended it.
    was_ended: bool,
    /// When it ended, from the start of the job.
    at: Duration,
    /// What it reported.
    report: Option<Report>,
}

/// Which rank a rank names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    Nobody,
    /// Itself: it refused its own last call.
    OwnRefusal,
    /// The rank that refused its last call.
    Refusal,
    /// The rank that made its communicator fail.
    Another,
}

impl Evidence {
    /// Returns the evidence without a refusal that the rank has survived.
    fn settled(mut self) -> Self {
        let failed = self.failed();
        self.report = self.report.filter(|report| failed || !report.is_refusal());
        self
    }

    /// Returns which rank the rank `own`, numbered in the whole job, names.
    fn whom(&self, own: usize) -> Names {
        match self.report {
            None => Names::Nobody,
            Some(report) if report.is_refusal() && report.named == Some(own) => Names::OwnRefusal,
            Some(report) if report.is_refusal() => Names::Refusal,
            Some(report) => match report.named {
                Some(named) if named == own => Names::Nobody,
                None if report.what == What::Panicked => Names::Nobody,
                _ => Names::Another,
            },
        }
    }

    fn failed(&self) -> bool {
        !self.was_ended && self.exit.is_some_and(Exit::failed)
    }

    fn broke(&self) -> bool {
        !self.was_ended && (matches!(self.exit, Some(Exit::Signal(_))) || self.exit == Some(PANIC))
    }
}

/// The ranks to blame, numbered on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Verdict {
    /// The cause. It need not have failed: it may have exited early with success, or have hung until it was ended.
    pub(crate) cause: usize,
    /// The first rank that failed by itself.
    failed: usize,
    /// Whether nothing distinguishes the cause from the others: there are several ranks, all exited with the same code at the
    /// same time, and none names another.
    alike: bool,
}

/// Weighs the evidence about the ranks, numbered from `first_rank`; `None` if no rank failed.
fn weigh(first_rank: usize, ranks: &[Evidence]) -> Option<Verdict> {
    let failures = || ranks.iter().filter(|rank| rank.failed());
    let first = failures().map(|rank| rank.at).min()?;
    // A rank that continues after another failed, and fails much later, has another cause.
    let in_time = |rank: &Evidence| rank.at <= first + REPORT;
    let place = |(place, rank): (usize, &Evidence)| {
        let names = rank.whom(first_rank + place);
        let is_lost = naming(first_rank, ranks, place, false).next().is_some();
        let refused = naming(first_rank, ranks, place, true).next().is_some();
        let line = match names {
            Names::Nobody | Names::OwnRefusal | Names::Refusal if is_lost => {
                u8::from(!rank.broke())
            }
            Names::Nobody | Names::OwnRefusal if rank.broke() && in_time(rank) => 2,
            Names::OwnRefusal if rank.failed() => 3,
            Names::Nobody if rank.failed() && refused => 3,
            Names::Nobody if rank.failed() && in_time(rank) => 4,
            _ if rank.failed() => 5,
            _ => return None,
        };
        Some((line, rank.at, place))
    };
    let places = ranks.iter().enumerate().filter_map(place);
    let failed = places
        .clone()
        .filter(|&(_, _, place)| ranks[place].failed());
    let is_alike = |(place, rank): (usize, &Evidence)| {
        rank.failed()
            && rank.exit == ranks[0].exit
            && matches!(rank.exit, Some(Exit::Code(_)))
            && rank.at <= first + TOGETHER
            && rank.whom(first_rank + place) == Names::Nobody
    };
    Some(Verdict {
        cause: lowest(places)?,
        failed: lowest(failed)?,
        alike: ranks.len() > 1 && ranks.iter().enumerate().all(is_alike),
    })
}

/// Returns the ranks, numbered on this machine, that name the rank at `place`: those that lost it, or if there are none, those
/// whose call it refused.
fn named_by(first_rank: usize, ranks: &[Evidence], place: usize) -> Vec<usize> {
    let lost: Vec<_> = naming(first_rank, ranks, place, false).collect();
    if lost.is_empty() {
        return naming(first_rank, ranks, place, true).collect();
    }
    lost
}

/// Returns the ranks, numbered on this machine, that name the rank at `place`, either in a refusal or in another report.
fn naming(
    first_rank: usize,
    ranks: &[Evidence],
    place: usize,
    refusal: bool,
) -> impl Iterator<Item = usize> {
    let names_it = move |report: &Report| {
        report.named == Some(first_rank + place) && report.is_refusal() == refusal
    };
    let others = ranks.iter().enumerate();
    let others = others
        .filter(move |(other, rank)| *other != place && rank.report.as_ref().is_some_and(names_it));
    others.map(|(other, _)| other)
}

/// Returns the lowest of the ranks that ended first among those in the first line of the table that applies.
fn lowest(places: impl Iterator<Item = (u8, Duration, usize)> + Clone) -> Option<usize> {
    let line = places.clone().map(|(line, ..)| line).min()?;
    let places = places.filter(|place| place.0 == line);
    let first = places.clone().map(|(_, at, _)| at).min()?;
    let together = places.filter(|&(_, at, _)| at <= first + TOGETHER);
    together.map(|(.., place)| place).min()
}

#[cfg(test)]
mod tests;
