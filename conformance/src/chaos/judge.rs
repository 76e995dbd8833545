//! Decides whether a job with faults kept the contract: from the reports of the ranks, their exits, and the
//! injected faults.

use std::time::Duration;

use comm_run::Exit;

use super::fault::Fault;
use super::inject::{Injected, InjectedKind};
use super::plan::{LeaveBy, Plan};
use super::start_patience;
use super::witness::{NO_START, Witness};
use crate::model::{Ruling, Shows};
use crate::report::{Account, Leaving};

/// What is known about a job that has ended.
#[derive(Debug)]
pub(super) struct Evidence<'a> {
    pub(super) plan: &'a Plan,
    /// How soon a death is reported, and which ranks determine the first death.
    pub(super) within: Duration,
    pub(super) ruling: Ruling,
    /// The delay caused by the machine, as the driver measured it.
    pub(super) slack: Duration,
    pub(super) timed_out: bool,
    pub(super) exits: Vec<Option<Exit>>,
    /// When the driver saw the exit of each process.
    pub(super) ended: Vec<Duration>,
    pub(super) shows: Shows,
    pub(super) accounts: Vec<Option<Account>>,
    pub(super) witnesses: Vec<Option<Witness>>,
    /// When each rank that left by itself did.
    pub(super) gone: Vec<Option<Duration>>,
    pub(super) injected: Vec<Injected>,
}

const KILL: i32 = 9;

/// Lists what is wrong, and returns how long the last survivor took to get its error.
pub(super) fn judge(evidence: &Evidence<'_>) -> (Vec<String>, Option<Duration>) {
    let mut problems = Vec::new();
    if evidence.timed_out {
        problems.push("the job did not end in time and was ended by the driver".to_owned());
    }
    let ranks = 0..evidence.exits.len();
    let dead: Vec<Dead> = ranks.clone().filter_map(|r| evidence.death(r)).collect();
    for rank in ranks.clone() {
        let wrong = evidence.ending(rank);
        problems.extend(wrong.into_iter().map(|text| format!("rank {rank} {text}")));
    }
    let deadly = evidence.plan.fault.is_deadly();
    // At the end of the program the victim may have finished before, and so may the survivors.
    let may_finish = !deadly || evidence.plan.fault == Fault::KillAtEnd;
    if dead.is_empty() && !may_finish {
        problems.push("nobody died: the plan was not carried out".to_owned());
        return (problems, None);
    }
    let survivors = ranks.filter(|&rank| dead.iter().all(|dead| dead.rank != rank));
    let mut blamed: Option<(usize, Option<usize>)> = None;
    let mut slowest = None;
    for rank in survivors {
        match &evidence.witnesses[rank] {
            None if !may_finish => problems.push(format!("rank {rank} was never told of a death")),
            None => {}
            Some(witness) if dead.is_empty() => {
                problems.push(format!(
                    "rank {rank} lost somebody where nobody died: {}",
                    witness.message
                ));
            }
            Some(witness) if witness.kind == NO_START => {
                let took = witness.told.saturating_sub(witness.entered);
                let patience = start_patience(evidence.exits.len());
                let bound = patience + Duration::from_secs(1) + witness.slack;
                if took > bound {
                    problems.push(format!("rank {rank} gave up after {took:?}, not {bound:?}"));
                }
            }
            Some(witness) => {
                let (wrong, took) = evidence.testimony(rank, witness, &dead);
                problems.extend(wrong.into_iter().map(|text| format!("rank {rank} {text}")));
                slowest = slowest.max(took);
                match blamed {
                    Some((other, first)) if first != witness.rank => problems.push(format!(
                        "rank {rank} blames {:?}, but rank {other} blames {first:?}",
                        witness.rank
                    )),
                    _ => blamed = Some((rank, witness.rank)),
                }
            }
        }
    }
    (problems, slowest)
}

/// How a rank went, between the two times.
#[derive(Debug, Clone, Copy)]
struct Dead {
    rank: usize,
    from: Duration,
    to: Duration,
    /// How the rank left by itself; `None` if it was killed.
    way: Option<LeaveBy>,
}

impl Evidence<'_> {
    /// Returns how a rank went, if it did.
    fn death(&self, rank: usize) -> Option<Dead> {
        let own = self.plan.leaves(rank).zip(self.gone[rank]);
        if let Some((way, at)) = own {
            let to = match (way, self.shows) {
                (LeaveBy::Dump(_), Shows::WhenLinksClose) => at.max(self.ended[rank]),
                _ => at,
            };
            let (from, way) = (at, Some(way));
            return Some(Dead {
                rank,
                from,
                to,
                way,
            });
        }
        let killed = self.exits[rank] == Some(Exit::Signal(KILL));
        let record =
            |record: &&Injected| record.rank == rank && record.kind == InjectedKind::Killed;
        let record = self.injected.iter().filter(|_| killed).find(record)?;
        Some(Dead {
            rank,
            from: record.from,
            to: record.to,
            way: None,
        })
    }

    /// Checks how one rank ended.
    fn ending(&self, rank: usize) -> Vec<String> {
        let mut wrong = Vec::new();
        let (exit, account) = (self.exits[rank], self.accounts[rank].as_ref());
        let killed = exit == Some(Exit::Signal(KILL)) && self.plan.kills(rank);
        if let Some(account) = account {
            wrong.extend(account.failed.iter().map(|text| format!("failed: {text}")));
        }
        if killed {
            return wrong;
        }
        let leaving = account.and_then(|account| account.leaving);
        let wanted = match leaving {
            Some(Leaving::Code(code)) => Exit::Code(code),
            Some(Leaving::Signal(signal)) => Exit::Signal(signal),
            Some(Leaving::Panic) => Exit::Code(101),
            None => Exit::Code(0),
        };
        if exit != Some(wanted) {
            let exit = exit.map_or("in an unknown way".to_owned(), |exit| exit.to_string());
            wrong.push(format!("ended: {exit}, not: {wanted}"));
        }
        let finished = account.is_some_and(|account| account.finished);
        if leaving.is_none() && !finished && wrong.is_empty() {
            wrong.push("never finished".to_owned());
        }
        wrong
    }

    /// Checks the error of a survivor, and returns how long it took.
    fn testimony(
        &self,
        rank: usize,
        witness: &Witness,
        dead: &[Dead],
    ) -> (Vec<String>, Option<Duration>) {
        let mut wrong = Vec::new();
        // A fence or a split names the rank that dropped its handle: that may be a survivor, after its own
        // error.
        let let_go = |blamed: Option<usize>| {
            let other = blamed.and_then(|other| self.witnesses.get(other)?.as_ref());
            other.is_some_and(|other| other.told <= witness.entered)
        };
        let beside = witness.before.iter().map(|(kind, rank)| (kind, *rank));
        let beside = beside.filter(|&(kind, blamed)| !(kind == "PeerLost" && let_go(blamed)));
        let own = std::iter::once((&witness.kind, witness.rank));
        for (kind, blamed) in beside.chain(own) {
            let Some(cause) = dead.iter().find(|dead| Some(dead.rank) == blamed) else {
                wrong.push(format!("blames {blamed:?}, who did not die ({kind})"));
                continue;
            };
            let wanted = match cause.way {
                Some(LeaveBy::Abort(_)) => "Aborted",
                _ => "PeerLost",
            };
            if kind != wanted {
                wrong.push(format!("was told {kind}, not {wanted}"));
            }
        }
        let Some(cause) = dead.iter().find(|dead| Some(dead.rank) == witness.rank) else {
            return (wrong, None);
        };
        if witness.told < cause.from {
            let early = cause.from.saturating_sub(witness.told);
            wrong.push(format!(
                "blames rank {} {early:?} before it died",
                cause.rank
            ));
        }
        if cause.way == Some(LeaveBy::Panic) && !witness.message.contains("panicked") {
            wrong.push("was not told that it panicked".to_owned());
        }
        let slack = self.slack.max(witness.slack);
        let first = dead.iter().min_by_key(|dead| dead.to).unwrap_or(cause);
        let lead = cause.from.saturating_sub(first.to);
        if lead > self.within + slack {
            let (named, first) = (cause.rank, first.rank);
            wrong.push(format!(
                "blames rank {named}, but rank {first} died {lead:?} before"
            ));
        }
        let ruler = |rank: usize| rank == 0 && self.ruling == Ruling::RankZero;
        let awake = |record: &&Injected| {
            record.kind == InjectedKind::Stopped && (record.rank == rank || ruler(record.rank))
        };
        let awake = self.injected.iter().filter(awake).map(|record| record.to);
        let mut since = awake.fold(cause.to.max(witness.entered), Duration::max);
        if self.plan.starves(rank).is_some() {
            // Without descriptors, the rank may have to learn of the death from a rank that has some.
            let told = |(other, witness): (usize, &Option<Witness>)| {
                let told = witness.as_ref()?.told;
                self.plan.starves(other).is_none().then_some(told)
            };
            let told = self.witnesses.iter().enumerate().filter_map(told);
            since = since.max(told.min().unwrap_or_default());
        }
        let took = witness.told.saturating_sub(since);
        let bound = self.within;
        if took > bound + slack {
            wrong.push(format!(
                "was told {took:?} after rank {} went, bound {bound:?}, the machine added {slack:?}",
                cause.rank
            ));
        }
        (wrong, Some(took))
    }
}

#[cfg(test)]
mod tests;
