//! Sums up how the steps ended.

use std::fmt::{self, Display, Formatter};
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use crate::process::Terminal;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran without findings.
    Passed,
    /// It ran and failed, or could not be started.
    Failed(String),
    /// It did not run; the text tells why and what to do.
    NotRun(String),
}

/// The result of a step: how it ended, a line for each test that did not run, its seconds, and the processor seconds of its programs.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    outcome: Outcome,
    not_run: Vec<String>,
    time: Duration,
    processors: Duration,
    /// Why the first try failed, if it ran again.
    before: Option<String>,
}

impl Row {
    /// Runs a step and measures its times.
    pub(crate) fn of(
        name: &'static str,
        terminal: &Terminal,
        step: impl FnOnce(&Terminal) -> Outcome,
    ) -> Self {
        let start = Instant::now();
        let outcome = step(terminal);
        let time = start.elapsed();
        Self {
            name,
            outcome,
            not_run: terminal.not_run(),
            time,
            processors: terminal.processors(),
            before: None,
        }
    }

    /// If the step failed, adds the names of the failed tests to the reason, because its output may be long, or far above.
    pub(crate) fn naming_failures(mut self, output: &str) -> Self {
        if let Outcome::Failed(reason) = &mut self.outcome {
            let failures = output.lines().filter_map(|line| {
                let name = line.strip_prefix("test ")?.strip_suffix("FAILED")?;
                Some(name.trim_end_matches([' ', '.']))
            });
            for name in failures.take(MOST_NAMES) {
                reason.push_str("; ");
                reason.push_str(name);
            }
        }
        self
    }

    /// Returns whether it passed only on the second try.
    fn passed_late(&self) -> bool {
        self.before.is_some() && self.outcome == Outcome::Passed
    }
}

/// How many failed tests a row names.
const MOST_NAMES: usize = 5;

/// Collects the rows of all steps.
#[derive(Debug, Default)]
pub(crate) struct StepTable {
    rows: Vec<Row>,
}

impl StepTable {
    /// Runs one step between a headline and a result; returns whether it passed.
    pub(crate) fn step(
        &mut self,
        name: &'static str,
        what: &str,
        step: impl FnOnce(&Terminal) -> Outcome,
    ) -> bool {
        println!("{}", bold(&format!("==> {name}: {what}")));
        self.add(Row::of(name, &Terminal::default(), step))
    }

    /// Adds a finished step, with its output between a headline and a result; returns whether it passed.
    pub(crate) fn finished(&mut self, what: &str, output: &str, row: Row) -> bool {
        print!("{}\n{output}", bold(&format!("==> {}: {what}", row.name)));
        self.add(row)
    }

    /// Returns the names of the steps that failed.
    pub(crate) fn failed(&self) -> Vec<&'static str> {
        let failed = |row: &&Row| matches!(row.outcome, Outcome::Failed(_));
        self.rows
            .iter()
            .filter(failed)
            .map(|row| row.name)
            .collect()
    }

    /// Runs a failed step once more. Its row is that of the second try, with the reason why the first one failed.
    pub(crate) fn again(
        &mut self,
        name: &'static str,
        what: &str,
        step: impl FnOnce(&Terminal) -> Outcome,
    ) {
        println!(
            "{}",
            bold(&format!("==> {name}, once more and alone: {what}"))
        );
        let mut row = Row::of(name, &Terminal::default(), step);
        if let Some(first) = self.rows.iter_mut().find(|row| row.name == name) {
            if let Outcome::Failed(reason) = &first.outcome {
                row.before = Some(reason.clone());
            }
            println!("{row}\n");
            *first = row;
        }
    }

    fn add(&mut self, row: Row) -> bool {
        println!("{row}\n");
        let passed = row.outcome == Outcome::Passed;
        self.rows.push(row);
        passed
    }

    /// Returns whether nothing failed; with `strict`, also whether everything ran and passed on the first try.
    pub(crate) fn succeeded(&self, strict: bool) -> bool {
        let [_, failed, skipped] = self.counts();
        let late = self.rows.iter().any(Row::passed_late);
        failed == 0 && !(strict && (skipped > 0 || late))
    }

    fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for row in &self.rows {
            counts[2] += row.not_run.len();
            counts[match row.outcome {
                Outcome::Passed => 0,
                Outcome::Failed(_) => 1,
                Outcome::NotRun(_) => 2,
            }] += 1;
        }
        counts
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (result, reason) = match (&self.outcome, &self.before) {
            (Outcome::Passed, None) => ("ok", ""),
            (Outcome::Passed, Some(before)) => ("2ND TRY", before.as_str()),
            (Outcome::Failed(reason), _) => ("FAILED", reason.as_str()),
            (Outcome::NotRun(reason), _) => ("NOT RUN", reason.as_str()),
        };
        let line = format!(
            "{:<12}{result:<8}{:>8.1}{:>12.1}  {reason}",
            self.name,
            self.time.as_secs_f64(),
            self.processors.as_secs_f64()
        );
        f.write_str(line.trim_end())
    }
}

/// Writes the table of steps and the tests that did not run; the last line contains only the three counts. Steps and tests
/// that did not run both count as skipped.
impl Display for StepTable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<12}{:<8}{:>8}{:>12}",
            "step", "result", "seconds", "processors"
        )?;
        for row in &self.rows {
            writeln!(f, "{row}")?;
        }
        if self.rows.iter().any(|row| !row.not_run.is_empty()) {
            writeln!(f, "\ntests that did not run, by step:")?;
        }
        for Row { name, not_run, .. } in &self.rows {
            for line in not_run {
                writeln!(f, "{name:<12}{line}")?;
            }
        }
        let [passed, failed, skipped] = self.counts();
        write!(f, "\n{passed} passed, {failed} failed, {skipped} skipped")
    }
}

/// Returns `text` in bold on a terminal, unchanged everywhere else.
pub(crate) fn bold(text: &str) -> String {
    if stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() {
        format!("\x1b[1m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::command;

    fn report(outcomes: [Outcome; 3]) -> StepTable {
        let rows = outcomes.map(|outcome| Row {
            name: "step",
            outcome,
            not_run: Vec::new(),
            time: Duration::from_millis(1250),
            processors: Duration::from_millis(2500),
            before: None,
        });
        StepTable { rows: rows.into() }
    }

    #[test]
    fn the_table_gives_reasons_and_ends_with_the_counts() {
        let skip = Outcome::NotRun("install it".to_owned());
        let shown =
            report([Outcome::Passed, Outcome::Failed("exit 1".to_owned()), skip]).to_string();
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines[1], "step        ok           1.2         2.5");
        assert_eq!(lines[2], "step        FAILED       1.2         2.5  exit 1");
        assert_eq!(
            lines[3],
            "step        NOT RUN      1.2         2.5  install it"
        );
        assert_eq!(lines.last(), Some(&"1 passed, 1 failed, 1 skipped"));
    }

    #[test]
    fn a_step_that_failed_names_its_tests() {
        let output = "test one ... ok\ntest a::two ... FAILED\n  test three ... FAILED\ntest [C12]  four/2   ... FAILED\n";
        let failed = |_: &Terminal| Outcome::Failed("cargo test".to_owned());
        let row = Row::of("step", &Terminal::default(), failed).naming_failures(output);
        let reason = "cargo test; a::two; [C12]  four/2";
        assert!(row.to_string().ends_with(reason), "{row}");
        let row = Row::of("step", &Terminal::default(), |_| Outcome::Passed);
        assert!(row.naming_failures(output).to_string().contains("ok"));
    }

    #[test]
    fn what_passes_only_the_second_time_shows_why_and_counts_when_strict() {
        let mut report = StepTable::default();
        let fails = |_: &Terminal| Outcome::Failed("a test".to_owned());
        report.step("one", "fails", fails);
        report.step("two", "fails", fails);
        report.again("one", "passes", |_| Outcome::Passed);
        let shown = report.to_string();
        let row = shown.lines().nth(1).unwrap();
        assert!(row.starts_with("one         2ND TRY"), "{row}");
        assert!(row.ends_with("  a test"), "{row}");
        report.again("two", "fails", fails);
        assert_eq!(report.failed(), ["two"]);
        report.again("two", "passes", |_| Outcome::Passed);
        assert!(report.succeeded(false) && !report.succeeded(true));
    }

    #[test]
    fn one_failure_is_enough() {
        let failed = report([
            Outcome::Passed,
            Outcome::Failed(String::new()),
            Outcome::Passed,
        ]);
        assert!(!failed.succeeded(false));
    }

    #[test]
    fn what_did_not_run_counts_only_when_strict() {
        let skipped = report([
            Outcome::Passed,
            Outcome::NotRun(String::new()),
            Outcome::Passed,
        ]);
        assert!(skipped.succeeded(false));
        assert!(!skipped.succeeded(true));
    }

    #[test]
    fn a_test_that_did_not_run_is_named_counts_as_skipped_and_fails_when_strict() {
        let mut report = StepTable::default();
        let says = "echo 'comm-x a::test: not root' >>\"$COMM_NOT_RUN\"";
        assert!(report.step("tests", "some", |terminal| {
            terminal.collect().unwrap();
            terminal.run(&mut command("sh", &["-c", says]))
        }));
        assert_eq!(report.counts(), [1, 0, 1]);
        let shown = report.to_string();
        assert!(
            shown.contains("tests       comm-x a::test: not root\n"),
            "{shown}"
        );
        assert!(report.succeeded(false) && !report.succeeded(true));
    }

    #[test]
    fn a_step_is_recorded_with_its_outcome() {
        let mut report = StepTable::default();
        assert!(report.step("good", "passes", |_| Outcome::Passed));
        assert!(!report.step("bad", "fails", |_| Outcome::Failed("no".to_owned())));
        assert_eq!(report.counts(), [1, 1, 0]);
    }
}
