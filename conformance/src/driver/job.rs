//! One job: a case in a world, started as real processes and judged.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use comm_run::{Line, OnFailure};
use tempfile::TempDir;

use super::judge::{self, Evidence};
use super::leftovers;
use super::options::Options;
use crate::case::Case;
use crate::clause::Clause;
use crate::launcher::Launcher;
use crate::model::{Checks, Model};
use crate::orders::{Orders, Placement, RANK, rank_in};
use crate::report::{Account, Told};
use crate::subject::{Failure, Subject};

/// The default number of random programs of a job.
pub(crate) const PROGRAMS: usize = 20;

/// Describes one job.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    pub(crate) case: Arc<Case>,
    pub(crate) world: usize,
    pub(crate) placement: Placement,
    subject: &'static str,
    model: Model,
    limit: Duration,
    programs: usize,
    seed: u64,
    launcher: fn(usize) -> Result<Option<Launcher>, Failure>,
}

impl Job {
    pub(crate) fn new<S: Subject>(
        case: Arc<Case>,
        world: usize,
        placement: Placement,
        options: &Options,
    ) -> Self {
        let programs = options.programs.unwrap_or(PROGRAMS);
        // Ten milliseconds more per program: the slowest backend takes a tenth of that.
        let more = u32::try_from(programs / 100).unwrap_or(u32::MAX);
        let limit = S::LIMIT * if case.memory() > 0 { 10 } else { 1 };
        Self {
            case,
            world,
            placement,
            subject: S::NAME,
            model: S::MODEL,
            limit: limit.saturating_add(Duration::from_secs(1).saturating_mul(more)),
            programs,
            seed: options.seed.unwrap_or(1),
            launcher: S::launcher,
        }
    }

    /// Orders the ranks to run `subject`, if one binary holds several.
    pub(crate) fn of(mut self, subject: &'static str) -> Self {
        self.subject = subject;
        self
    }

    /// Returns the name of the test: case, world and, for threads, placement.
    pub(crate) fn name(&self) -> String {
        let (case, world) = (&self.case.name, self.world);
        format!("{case}/{world}{}", self.placement.suffix())
    }

    /// Returns the clauses in one word.
    pub(crate) fn clauses(&self) -> String {
        let names: Vec<String> = self.case.clauses.iter().map(ToString::to_string).collect();
        names.join(" ")
    }

    /// Returns whether the case covers what ranks report to each other, or all cases are to run with checks.
    fn checks(&self) -> bool {
        let compared = [Clause::C10, Clause::C11, Clause::C13];
        let asked = std::env::var_os("COBRE_COMM_CHECK").is_some_and(|value| value == "1");
        asked
            || self
                .case
                .clauses
                .iter()
                .any(|clause| compared.contains(clause))
    }

    /// Runs the job; returns how long after a death the survivors got their errors, or everything that went
    /// wrong.
    pub(crate) fn run(&self) -> Result<Vec<Told>, String> {
        let place =
            JobFolder::create().map_err(|reason| format!("no directory for the job: {reason}"))?;
        let mut told = Vec::new();
        for round in 0..self.case.round_count() {
            told.extend(self.round(&place, round)?);
        }
        Ok(told)
    }

    fn round(&self, place: &JobFolder, round: usize) -> Result<Vec<Told>, String> {
        let launcher = (self.launcher)(self.world).map_err(|e| format!("no launcher: {e}"))?;
        let processes = match (self.placement, &launcher) {
            (Placement::Processes, None) => self.world,
            (Placement::Processes, Some(_)) | (Placement::Threads, _) => 1,
        };
        let orders = |rank| Orders {
            subject: self.subject.to_owned(),
            case: self.case.name.clone(),
            rank: (self.placement == Placement::Processes).then_some(rank),
            size: self.world,
            name: place.name.clone(),
            dir: place.dir.path().to_owned(),
            round,
            limit: self.limit,
            programs: self.programs,
            seed: self.seed,
            most: launcher.as_ref().map_or(usize::MAX, |l| l.most),
        };
        fs::create_dir_all(orders(0).board()).map_err(|e| format!("no notice board: {e}"))?;
        let own = std::env::current_exe().map_err(|e| format!("no path of this program: {e}"))?;
        let program = launcher.as_ref().map_or(own.as_os_str(), |l| &l.program);
        let output = Output::default();
        let mut job = comm_run::Job::new(program, processes)
            .timeout(self.limit + Duration::from_secs(5))
            .on_failure(if self.case.ranks_die() {
                OnFailure::LetOthersFinish
            } else {
                OnFailure::EndOthers
            })
            .sink(output.sink());
        if self.model.checks == Checks::OnRequest {
            job = job.env("COBRE_COMM_CHECK", if self.checks() { "1" } else { "0" });
        }
        for rank in 0..processes {
            for (key, value) in orders(rank).variables() {
                job = job.rank_env(rank, key, value);
            }
        }
        if let Some(Launcher {
            arguments,
            variables,
            rank,
            ..
        }) = &launcher
        {
            job = job.args(arguments).args([own.as_os_str()]);
            job = job.rank_env(0, RANK, rank_in(rank));
            for (key, value) in variables {
                job = job.env(key, value);
            }
        }
        let outcome = job
            .run()
            .map_err(|e| format!("the job did not start: {e}"))?;
        let evidence = Evidence {
            world: self.world,
            placement: self.placement,
            name: &place.name,
            accounts: (0..self.world)
                .map(|rank| account(&orders(0).report(rank)))
                .collect(),
            launched: launcher.is_some(),
            exits: outcome.ranks.iter().map(|rank| rank.exit).collect(),
            timed_out: outcome.timed_out,
        };
        let mut problems = judge::judge(&evidence);
        if evidence.launched {
            leftovers::wait(&place.name);
        }
        problems.extend(leftovers::find(&place.name));
        if problems.is_empty() {
            let accounts = evidence.accounts.into_iter().flatten();
            return Ok(accounts.flat_map(|account| account.told).collect());
        }
        problems.extend(output.shown());
        Err(problems.join("\n"))
    }
}

/// Keeps the output of the ranks of a job, to be shown if something is wrong.
#[derive(Debug, Default)]
pub(crate) struct Output {
    text: Arc<Mutex<String>>,
}

impl Output {
    /// Returns the destination for the lines of the job.
    pub(crate) fn sink(&self) -> impl FnMut(Line<'_>) -> io::Result<()> + Send + 'static {
        let text = Arc::clone(&self.text);
        move |line| {
            let mut text = text.lock().unwrap_or_else(PoisonError::into_inner);
            let words = String::from_utf8_lossy(line.bytes);
            writeln!(text, "[{}] {words}", line.rank).map_err(io::Error::other)
        }
    }

    /// Returns the whole output, if there is any.
    pub(crate) fn shown(&self) -> Option<String> {
        let text = self.text.lock().unwrap_or_else(PoisonError::into_inner);
        (!text.is_empty()).then(|| format!("output:\n{text}"))
    }
}

/// Reads the report of a rank, if there is one.
pub(crate) fn account(path: &Path) -> Option<Account> {
    fs::read_to_string(path)
        .ok()
        .map(|text| Account::parse(&text))
}

/// The name and the directory of a job. Dropping it removes the directory and every file with that name.
#[derive(Debug)]
pub(crate) struct JobFolder {
    pub(crate) name: String,
    pub(crate) dir: TempDir,
}

impl JobFolder {
    pub(crate) fn create() -> io::Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix("conformance-")
            .rand_bytes(16)
            .tempdir()?;
        let name = dir.path().file_name().unwrap_or_default();
        let name = name.to_string_lossy().into_owned();
        Ok(Self { name, dir })
    }
}

impl Drop for JobFolder {
    fn drop(&mut self) {
        // Files that a backend left were reported; they must not accumulate.
        leftovers::remove(&self.name);
    }
}
