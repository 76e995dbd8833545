//! One round: a job with faults, then one without faults, under the same name.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use comm_run::OnFailure;

use super::fault::Fault;
use super::inject::Injector;
use super::judge::{self, Evidence};
use super::plan::Plan;
use super::witness::{NOTICE, Witness};
use super::{LIMIT, case_name};
use crate::board::Board;
use crate::clock::{self, Metronome};
use crate::driver::{JobFolder, Output, account, leftovers};
use crate::model::{Ruling, Shows};
use crate::orders::Orders;
use crate::subject::Subject;

/// Describes one round.
#[derive(Debug, Clone)]
pub(crate) struct Round {
    subject: &'static str,
    seed: u64,
    world: usize,
    within: Duration,
    ruling: Ruling,
    shows: Shows,
    limit: Duration,
    plan: Plan,
}

impl Round {
    /// Draws the round of a seed.
    pub(crate) fn new<S: Subject>(fault: Fault, seed: u64, world: usize) -> Self {
        Self {
            subject: S::NAME,
            seed,
            world,
            within: S::MODEL.death_within(),
            ruling: S::MODEL.ruling,
            shows: S::MODEL.shows,
            limit: LIMIT.min(S::LIMIT),
            plan: Plan::draw(fault, seed, world),
        }
    }

    /// Orders the ranks to run `subject`, if one binary holds several.
    pub(crate) fn of(mut self, subject: &'static str) -> Self {
        self.subject = subject;
        self
    }

    pub(super) fn plan(&self) -> &Plan {
        &self.plan
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn world(&self) -> usize {
        self.world
    }

    /// Runs the round; returns how long the last survivor took to get its error, or everything that went
    /// wrong.
    pub(crate) fn run(&self) -> Result<Option<Duration>, String> {
        let place =
            JobFolder::create().map_err(|reason| format!("no directory for the job: {reason}"))?;
        let told = self.job(&place, 0, &self.plan)?;
        let after = Plan::draw(Fault::Nothing, self.seed, self.world);
        self.job(&place, 1, &after)
            .map_err(|problems| format!("the job without faults after it:\n{problems}"))?;
        let port = |round| {
            let board = Board::new(self.orders(&place, round, Fault::Nothing, 0).board());
            board.read(&format!("seat-{}-port", place.name))
        };
        match (port(0), port(1)) {
            (Some(first), Some(second)) if first != second => Err(format!(
                "the port {first} was not free again for the next job, which took {second}"
            )),
            _ => Ok(told),
        }
    }

    fn orders(&self, place: &JobFolder, round: usize, fault: Fault, rank: usize) -> Orders {
        Orders {
            subject: self.subject.to_owned(),
            case: case_name(fault),
            rank: Some(rank),
            size: self.world,
            name: place.name.clone(),
            dir: place.dir.path().to_owned(),
            round,
            limit: self.limit,
            programs: 0,
            seed: self.seed,
            most: usize::MAX,
        }
    }

    fn job(
        &self,
        place: &JobFolder,
        round: usize,
        plan: &Plan,
    ) -> Result<Option<Duration>, String> {
        let orders = |rank| self.orders(place, round, plan.fault, rank);
        fs::create_dir_all(orders(0).board()).map_err(|e| format!("no notice board: {e}"))?;
        let board = Board::new(orders(0).board());
        let own = std::env::current_exe().map_err(|e| format!("no path of this program: {e}"))?;
        let output = Output::default();
        let mut job = comm_run::Job::new(own, self.world)
            .timeout(self.limit + Duration::from_secs(5))
            .on_failure(OnFailure::LetOthersFinish)
            .sink(output.sink());
        for rank in 0..self.world {
            for (key, value) in orders(rank).variables() {
                job = job.rank_env(rank, key, value);
            }
        }
        let metronome = Metronome::start();
        let start = clock::now();
        let running = job
            .start()
            .map_err(|e| format!("the job did not start: {e}"))?;
        let (over, injected) = (AtomicBool::new(false), Mutex::new(Vec::new()));
        let handle = running.handle();
        let injector = Injector {
            handle: &handle,
            board: &board,
            name: &place.name,
            seed: self.seed,
            over: &over,
            injected: &injected,
        };
        let outcome = thread::scope(|scope| {
            injector.run(scope, plan);
            let outcome = running.wait();
            over.store(true, Ordering::Release);
            outcome
        });
        let ranks = 0..self.world;
        let notice = |rank: usize, key: &str| board.read(&format!("{key}-{rank}"));
        let evidence = Evidence {
            plan,
            within: self.within,
            ruling: self.ruling,
            slack: metronome.slack(),
            timed_out: outcome.timed_out,
            exits: outcome.ranks.iter().map(|rank| rank.exit).collect(),
            ended: outcome
                .ranks
                .iter()
                .map(|rank| start + rank.elapsed)
                .collect(),
            shows: self.shows,
            accounts: ranks
                .clone()
                .map(|r| account(&orders(0).report(r)))
                .collect(),
            witnesses: ranks
                .clone()
                .map(|rank| Witness::parse(&notice(rank, NOTICE)?))
                .collect(),
            gone: ranks
                .map(|rank| notice(rank, "gone")?.parse().ok().map(Duration::from_nanos))
                .collect(),
            injected: injected
                .into_inner()
                .unwrap_or_else(PoisonError::into_inner),
        };
        let (mut problems, told) = judge::judge(&evidence);
        // If all ranks are killed between the link and the unlink of a file, the next job removes it.
        if plan.fault != Fault::KillAllAtStart {
            problems.extend(leftovers::find(&place.name));
        }
        if problems.is_empty() {
            return Ok(told);
        }
        for (rank, witness) in evidence.witnesses.iter().enumerate() {
            if let Some(witness) = witness {
                problems.push(format!("rank {rank} was told: {}", witness.message));
            }
        }
        for record in &evidence.injected {
            problems.push(format!("done: {record:?}"));
        }
        problems.extend(output.shown());
        Err(problems.join("\n"))
    }
}
