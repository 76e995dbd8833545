//! The driver role: selects the jobs, runs each of them, and reports the results.

mod job;
mod judge;
pub(crate) mod leftovers;
mod memory;
mod options;
mod pool;
mod table;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::case::Case;
use crate::clause::Clause;
use crate::model::Model;
use crate::orders::Placement;
use crate::subject::Subject;
pub(crate) use job::{Job, JobFolder, Output, PROGRAMS, account};
pub(crate) use options::Options;

/// The worlds that a backend is tested in.
pub(crate) const WORLDS: [usize; 5] = [1, 2, 3, 4, 8];

/// Runs the suite as tests, or as a table; in `worlds` unless the arguments select others.
pub(crate) fn main<S: Subject>(cases: Vec<Case>, worlds: &[usize]) -> ExitCode {
    let options = Options::parse();
    if let Some(pinned) = Model::of(S::NAME)
        && pinned != S::MODEL
    {
        return usage(&format!(
            "the model of '{}' is fixed by the contract: {pinned:?}",
            S::NAME
        ));
    }
    let selection = match Selection::new::<S>(cases, &options, worlds) {
        Ok(selection) => selection,
        Err(reason) => return usage(&reason),
    };
    if options.table {
        return table::run(S::NAME, &selection);
    }
    mimic(&selection, options.tests)
}

/// Prints what is wrong with the arguments or the orders; returns the exit code for that.
pub(crate) fn usage(reason: &str) -> ExitCode {
    // Without a standard error stream, the message is lost.
    let _ = writeln!(std::io::stderr(), "error: {reason}");
    ExitCode::from(2)
}

/// The jobs to run, and the cases that are not promised.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) jobs: Vec<Job>,
    pub(crate) left_out: Vec<(Arc<Case>, &'static str)>,
    /// Cases that need more than was requested, or more memory than there is.
    pub(crate) not_run: Vec<(Arc<Case>, String)>,
    /// How many jobs run at a time.
    pub(crate) at_once: usize,
}

impl Selection {
    /// Selects the jobs of a backend, in `worlds` unless the arguments select others.
    fn new<S: Subject>(
        cases: Vec<Case>,
        options: &Options,
        worlds: &[usize],
    ) -> Result<Self, String> {
        sound(&cases)?;
        let mut selection = Self {
            jobs: Vec::new(),
            left_out: Vec::new(),
            not_run: Vec::new(),
            at_once: pool::width(),
        };
        // The ranks of another launcher may each use a whole processor while waiting, as MPI ranks do; and
        // the memory for big calls was checked as if each job ran by itself.
        if options.big || S::launcher(1).is_ok_and(|launcher| launcher.is_some()) {
            selection.at_once = 1;
        }
        let worlds = if options.worlds.is_empty() {
            worlds
        } else {
            options.worlds.as_slice()
        };
        let pattern = options.case.as_deref().unwrap_or("");
        let mut found = false;
        for case in cases.into_iter().map(Arc::new) {
            if !case.name.contains(pattern) {
                continue;
            }
            found = true;
            if case.memory() > 0 && !options.big {
                selection.not_run.push((case, "takes --big".to_owned()));
                continue;
            }
            if let Some(reason) = case.left_out_by(&S::MODEL) {
                selection.left_out.push((case, reason));
                continue;
            }
            for (world, placement) in case.jobs(&S::MODEL, worlds) {
                if let Err(reason) = memory::suffices(&case, world) {
                    selection.not_run.push((Arc::clone(&case), reason));
                    continue;
                }
                selection
                    .jobs
                    .push(Job::new::<S>(Arc::clone(&case), world, placement, options));
            }
        }
        if !found {
            return Err(format!("no case has '{pattern}' in its name"));
        }
        if selection.jobs.is_empty() && selection.not_run.is_empty() && !options.worlds.is_empty() {
            return Err(format!(
                "nothing to run in worlds of {:?} ranks: the backend or the cases have none of them",
                options.worlds
            ));
        }
        Ok(selection)
    }
}

/// Checks the suite itself: case names are unique, and every clause has a case.
fn sound(cases: &[Case]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    if let Some(twice) = cases.iter().find(|case| !names.insert(&case.name)) {
        return Err(format!("two cases are called '{}'", twice.name));
    }
    let cited = |clause| cases.iter().any(|case| case.clauses.contains(clause));
    match Clause::ALL.iter().find(|clause| !cited(clause)) {
        Some(clause) => Err(format!("no case is about {clause}")),
        None => Ok(()),
    }
}

/// Runs the selected jobs as tests that cargo and nextest understand.
fn mimic(selection: &Selection, mut arguments: Arguments) -> ExitCode {
    arguments.test_threads.get_or_insert(selection.at_once);
    let run = selection.jobs.iter().cloned().map(|job| {
        let clauses = job.clauses();
        Trial::test(job.name(), move || {
            let told = job.run().map_err(Failed::from)?;
            for excused in told.iter().filter(|told| told.is_excused()) {
                eprintln!("{}: only slack lets it pass: {excused:?}", job.name());
            }
            Ok(())
        })
        .with_kind(clauses)
    });
    let left_out = selection.left_out.iter().map(|(case, reason)| {
        let name = format!("{} ({reason})", case.name);
        Trial::test(name, move || Err(Failed::from("not promised")))
            .with_kind("not promised")
            .with_ignored_flag(true)
    });
    let not_run = selection.not_run.iter().map(|(case, reason)| {
        let reason = reason.clone();
        Trial::test(format!("{} ({reason})", case.name), || {
            Err(Failed::from(reason))
        })
        .with_kind("not run")
        .with_ignored_flag(true)
    });
    let trials = run.chain(left_out).chain(not_run).collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

impl Placement {
    fn suffix(self) -> &'static str {
        match self {
            Self::Processes => "",
            Self::Threads => "-threads",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(name: &str, clauses: &'static [Clause]) -> Case {
        Case::new(name, clauses, |_| Ok(()))
    }

    #[test]
    fn a_suite_without_a_clause_is_refused() {
        let error = sound(&[case("a", &[Clause::C1])]);
        assert_eq!(error, Err("no case is about C2".to_owned()));
    }

    #[test]
    fn two_cases_of_one_name_are_refused() {
        let error = sound(&[case("a", &Clause::ALL), case("a", &Clause::ALL)]);
        assert_eq!(error, Err("two cases are called 'a'".to_owned()));
    }

    #[test]
    fn a_suite_with_every_clause_is_sound() {
        assert_eq!(sound(&[case("a", &Clause::ALL)]), Ok(()));
    }
}
