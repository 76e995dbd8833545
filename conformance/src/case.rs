//! A case: a plain function that every rank runs, and the clauses it covers.

use std::fmt;

use crate::clause::Clause;
use crate::model::{Model, Need, Ranks, Worlds};
use crate::orders::Placement;
use crate::run::Run;
use crate::subject::Failure;

/// The result of a case on one rank; a panic is a failure, too.
pub(crate) type Verdict = Result<(), Failure>;

/// Describes one case.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) clauses: &'static [Clause],
    needs: Vec<Need>,
    from_world: usize,
    to_world: usize,
    rounds: usize,
    deaths: bool,
    memory: u64,
    body: Box<dyn Fn(&Run) -> Verdict + Send + Sync>,
}

impl Case {
    /// Creates a case that every world runs.
    pub(crate) fn new(
        name: impl Into<String>,
        clauses: &'static [Clause],
        body: impl Fn(&Run) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            clauses,
            needs: Vec::new(),
            from_world: 1,
            to_world: usize::MAX,
            rounds: 1,
            deaths: false,
            memory: 0,
            body: Box::new(body),
        }
    }

    /// Sets the smallest world, for cases that show nothing in smaller ones.
    pub(crate) fn at_least(mut self, ranks: usize) -> Self {
        self.from_world = ranks;
        self
    }

    /// Sets the largest world, for cases that take long and show nothing more in larger ones.
    pub(crate) fn at_most(mut self, ranks: usize) -> Self {
        self.to_world = ranks;
        self
    }

    /// Adds a need beyond the clauses.
    pub(crate) fn needs(mut self, need: Need) -> Self {
        self.needs.push(need);
        self
    }

    /// Sets how often the driver starts the job, one after the other, under the same name.
    pub(crate) fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds;
        self
    }

    /// Permits ranks to die: the launcher does not end the other ranks then.
    pub(crate) fn deaths(mut self) -> Self {
        self.deaths = true;
        self
    }

    /// Restricts the case to runs with `--big`; each rank needs `bytes` of memory.
    pub(crate) fn big(mut self, bytes: u64) -> Self {
        self.memory = bytes;
        self
    }

    /// Returns the memory that each rank needs; 0 if it does not matter.
    pub(crate) fn memory(&self) -> u64 {
        self.memory
    }

    /// Returns whether ranks of this case die on purpose.
    pub(crate) fn ranks_die(&self) -> bool {
        self.deaths
    }

    /// Returns how many times the job is started.
    pub(crate) fn round_count(&self) -> usize {
        self.rounds
    }

    /// Returns why a backend with this model does not run the case; `None` if it does.
    pub(crate) fn left_out_by(&self, model: &Model) -> Option<&'static str> {
        let clauses = self.clauses.iter().find_map(|&c| model.leaves_out(c));
        let needs = || self.needs.iter().find_map(|&need| model.lacks(need));
        let worlds = || {
            let single = model.worlds == Worlds::One && self.from_world > 1;
            single.then_some("there is one rank, always")
        };
        clauses.or_else(needs).or_else(worlds)
    }

    /// Returns the jobs to start for a backend with this model, among `worlds`.
    pub(crate) fn jobs(&self, model: &Model, worlds: &[usize]) -> Vec<(usize, Placement)> {
        let placements: &[Placement] = match model.ranks {
            Ranks::Threads => &[Placement::Threads],
            Ranks::Both if !self.needs.contains(&Need::Processes) => {
                &[Placement::Processes, Placement::Threads]
            }
            Ranks::Both | Ranks::Processes => &[Placement::Processes],
        };
        let possible = |&world: &usize| {
            let suits = self.from_world <= world && world <= self.to_world;
            suits && (model.worlds == Worlds::Any || world == 1)
        };
        let worlds = worlds.iter().copied().filter(possible);
        worlds
            .flat_map(|world| placements.iter().map(move |&placement| (world, placement)))
            // A job of one thread is the same as a job of one process.
            .filter(|&(world, placement)| {
                world > 1 || placement == Placement::Processes || model.ranks == Ranks::Threads
            })
            .collect()
    }

    /// Runs the case on this rank.
    pub(crate) fn run(&self, run: &Run) -> Verdict {
        (self.body)(run)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Case")
            .field("name", &self.name)
            .field("clauses", &self.clauses)
            .finish_non_exhaustive()
    }
}
