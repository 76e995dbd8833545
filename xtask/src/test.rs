//! Runs every check and every test.

use std::collections::VecDeque;
use std::process::Command;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{iter, thread};

use crate::process::{Terminal, shown};
use crate::report::{Outcome, Row, StepTable, bold};
use crate::tools::Tool;

mod idle;
mod steps;

use steps::{after_build, before_build, build};

/// Run every check and every test.
#[derive(Debug, clap::Args)]
pub(crate) struct Test {
    /// Run only these steps; their names are those in the summary
    #[arg(value_name = "STEP", value_parser = step_name)]
    steps: Vec<String>,
    /// Also exit with 1 if a step did not run because a tool is missing, if a test did not run because the system or the user does not allow
    /// it, or if a step passed only on its second try
    #[arg(long)]
    strict: bool,
}

fn step_name(argument: &str) -> Result<String, String> {
    let steps = [before_build(), vec![build()], after_build()].into_iter();
    let names: Vec<_> = steps.flatten().map(|step| step.name).collect();
    if names.contains(&argument) {
        Ok(argument.to_owned())
    } else {
        Err(format!("the steps are {}", names.join(", ")))
    }
}

/// One check.
struct TestStep {
    name: &'static str,
    /// The tools that must be installed in addition to Rust.
    tool: Option<&'static Tool>,
    lane: Lane,
    work: Work,
}

/// Where a step runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// On the terminal, one after another: all steps that keep processors busy.
    Front,
    /// Concurrently with the first lane, [`SHARERS`] at a time: tests, most of which wait. The first lane helps when it is done, and an
    /// additional step starts whenever processors are idle.
    Shared,
    /// Concurrently with all of them, on idle processors: steps that compile.
    Beside,
}

/// How many minutes one command of a step may take: several times as long as the longest takes on a slow machine, but short enough
/// that a run in which two commands hang, twice each, still ends within an hour and a half.
const LIMIT_MINUTES: u64 = 20;

/// How many steps of [`Lane::Shared`] run at once.
const SHARERS: usize = 2;

enum Work {
    /// Runs commands; all of them must succeed.
    Run(Vec<Command>),
    /// Runs a function; the text describes it.
    Call(&'static str, Function),
}

type Function = Box<dyn FnOnce(&Terminal) -> Outcome + Send>;

/// Runs all steps, prints the summary and returns whether nothing failed.
///
/// A failure does not prevent the steps after it from running. Only steps that need compiled code are left out if it does not compile. A step
/// that fails while others run is retried alone at the end: on small machines, contention alone can break time limits. The summary shows
/// which steps needed that.
pub(crate) fn run(Test { steps, strict }: &Test) -> bool {
    let chosen = |step: &TestStep| steps.is_empty() || steps.iter().any(|name| name == step.name);
    let mut report = StepTable::default();
    for step in before_build().into_iter().filter(chosen) {
        step.run_in_front(&mut report);
    }
    let build = Some(build()).filter(chosen);
    let others = after_build().into_iter().filter(chosen).collect();
    if build.is_none_or(|build| build.run_in_front(&mut report)) {
        run_lanes(&mut report, others);
        run_again(&mut report, after_build());
    } else {
        for step in others {
            let reason = "the workspace does not compile".to_owned();
            report.step(step.name, &step.what(), |_| Outcome::NotRun(reason));
        }
    }
    println!("{}\n{report}", bold("==> summary"));
    report.succeeded(*strict)
}

/// Runs the steps of all lanes. Shows steps of the other lanes when the terminal is free.
fn run_lanes(report: &mut StepTable, mut steps: Vec<TestStep>) {
    // Before the lanes start, so that only one thread installs tools.
    steps.retain(|step| {
        let missing = step.tool.and_then(|tool| tool.obtain().err());
        let found = missing.is_none();
        if let Some(advice) = missing {
            report.step(step.name, &step.what(), |_| Outcome::NotRun(advice));
        }
        found
    });
    let mut queue = |lane| Queue::new(steps.extract_if(.., |step| step.lane == lane));
    let (front, shared, beside) = (queue(Lane::Front), queue(Lane::Shared), queue(Lane::Beside));
    let (sender, finished) = mpsc::channel();
    thread::scope(|scope| {
        for queue in iter::repeat_n(&shared, SHARERS).chain([&beside]) {
            let sender = sender.clone();
            scope.spawn(move || queue.steps().for_each(|step| step.run_beside(&sender)));
        }
        let shared = &shared;
        scope.spawn(move || {
            let when_idle = || idle::wait(|| shared.is_empty());
            for step in iter::from_fn(|| when_idle().then(|| shared.next())?) {
                step.run_beside(&sender);
            }
        });
        for step in front.steps().chain(shared.steps()) {
            step.run_in_front(report);
            for Finished { what, output, row } in finished.try_iter() {
                report.finished(&what, &output, row);
            }
        }
        for Finished { what, output, row } in finished {
            report.finished(&what, &output, row);
        }
    });
}

/// The steps of a lane that have not started yet.
struct Queue(Mutex<VecDeque<TestStep>>);

impl Queue {
    fn new(steps: impl Iterator<Item = TestStep>) -> Self {
        Self(Mutex::new(steps.collect()))
    }

    /// Returns the next step; each step is returned only once.
    fn steps(&self) -> impl Iterator<Item = TestStep> {
        iter::from_fn(|| self.next())
    }

    fn next(&self) -> Option<TestStep> {
        self.lock().pop_front()
    }

    fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<TestStep>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs the failed steps once more, one after another, without other steps at the same time.
fn run_again(report: &mut StepTable, steps: Vec<TestStep>) {
    let failed = report.failed();
    for step in steps {
        if failed.contains(&step.name) {
            let what = step.what();
            report.again(step.name, &what, |terminal| step.work.run(terminal));
        }
    }
}

/// The output of a step that ran concurrently with others.
struct Finished {
    what: String,
    output: String,
    row: Row,
}

impl TestStep {
    /// Describes the step; if it runs commands, as a person would type them.
    fn what(&self) -> String {
        match &self.work {
            Work::Run(commands) => commands.iter().map(shown).collect::<Vec<_>>().join("; "),
            Work::Call(what, _) => (*what).to_owned(),
        }
    }

    fn run_in_front(self, report: &mut StepTable) -> bool {
        let what = self.what();
        report.step(self.name, &what, |terminal| {
            let missing = self.tool.and_then(|tool| tool.obtain().err());
            missing.map_or_else(|| self.work.run(terminal), Outcome::NotRun)
        })
    }

    fn run_beside(self, sender: &Sender<Finished>) {
        let (name, what) = (self.name, self.what());
        let (row, output) = match Terminal::beside(self.lane == Lane::Beside) {
            Ok(terminal) => {
                let row = Row::of(name, &terminal, |terminal| self.work.run(terminal));
                let output = terminal.output();
                (row.naming_failures(&output), output)
            }
            Err(error) => {
                let reason = format!("there is no file for its output: {error}");
                let failed = |_: &Terminal| Outcome::Failed(reason);
                let row = Row::of(name, &Terminal::default(), failed);
                (row, String::new())
            }
        };
        let finished = Finished { what, output, row };
        // The receiver still exists, because it waits for the last step.
        let _ = sender.send(finished);
    }
}

impl Work {
    fn run(self, terminal: &Terminal) -> Outcome {
        if let Err(error) = terminal.collect() {
            let reason = format!("there is no file for the tests that do not run: {error}");
            return Outcome::Failed(reason);
        }
        terminal.bound(Duration::from_mins(LIMIT_MINUTES));
        match self {
            Self::Run(commands) => terminal.run_all(commands),
            Self::Call(_, call) => call(terminal),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    fn step(name: &'static str, lane: Lane, script: &str) -> TestStep {
        TestStep {
            name,
            tool: None,
            lane,
            work: Work::Run(vec![command("sh", &["-c", script])]),
        }
    }

    #[test]
    fn every_step_of_every_lane_is_in_the_report() {
        let mut report = StepTable::default();
        let steps = vec![
            step("one", Lane::Beside, "exit 0"),
            step("two", Lane::Front, "exit 0"),
            step("three", Lane::Shared, "exit 1"),
            step("four", Lane::Front, "exit 0"),
        ];
        run_lanes(&mut report, steps);
        let shown = report.to_string();
        assert!(shown.ends_with("3 passed, 1 failed, 0 skipped"), "{shown}");
        assert!(shown.contains("three       FAILED"), "{shown}");
    }

    /// A step that fails and creates its file if that does not exist yet.
    fn fails_once(name: &'static str, lane: Lane, file: &std::path::Path) -> TestStep {
        let script = format!("[ -e {0} ] || {{ : >{0}; exit 1; }}", file.display());
        step(name, lane, &script)
    }

    #[test]
    fn a_step_that_fails_runs_again_alone_and_the_summary_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        let steps = || {
            vec![
                fails_once("one", Lane::Shared, &file),
                step("two", Lane::Front, "exit 1"),
                step("three", Lane::Front, "exit 0"),
            ]
        };
        let mut report = StepTable::default();
        run_lanes(&mut report, steps());
        assert_eq!(report.failed(), ["two", "one"]);
        run_again(&mut report, steps());
        let shown = report.to_string();
        assert!(shown.contains("one         2ND TRY"), "{shown}");
        assert!(shown.contains("two         FAILED"), "{shown}");
        assert!(shown.contains("three       ok"), "{shown}");
        assert!(shown.ends_with("2 passed, 1 failed, 0 skipped"), "{shown}");
    }

    #[test]
    fn a_test_that_did_not_run_shows_whichever_lane_it_is_in() {
        for lane in [Lane::Front, Lane::Shared] {
            let mut report = StepTable::default();
            let script = "echo 'x y: no root' >>\"$COMM_NOT_RUN\"";
            run_lanes(&mut report, vec![step("one", lane, script)]);
            let shown = report.to_string();
            assert!(shown.contains("one         x y: no root"), "{shown}");
            assert!(shown.ends_with("1 passed, 0 failed, 1 skipped"), "{shown}");
        }
    }

    #[test]
    fn names_are_short_and_appear_once() {
        let steps = [before_build(), vec![build()], after_build()];
        let all: Vec<_> = steps.iter().flatten().map(|step| step.name).collect();
        let mut unique = all.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), all.len(), "{all:?}");
        assert!(all.iter().all(|name| name.len() < 12), "{all:?}");
    }
}
