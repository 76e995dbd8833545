//! Sums up how the steps ended.

use std::fmt::{self, Display, Formatter};
use std::io::{IsTerminal, stdout};
use std::time::{Duration, Instant};

use crate::process::Terminal;

/// Holds how a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It ran and found nothing.
    Passed,
    /// It ran and found something, or could not be started.
    Failed(String),
    /// It did not run; the text says why and what to do.
    NotRun(String),
}

/// Holds how a step ended, a line for each of its tests that did not run, the seconds that it took, and those of all processors that its
/// programs used.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    outcome: Outcome,
    not_run: Vec<String>,
    time: Duration,
    processors: Duration,
}

impl Row {
    /// Runs a step and takes its times.
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
        }
    }
}

/// Collects the rows of all steps.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

impl Report {
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

    /// Adds a step that has run, and its output, between a headline and a result; returns whether it passed.
    pub(crate) fn finished(&mut self, what: &str, output: &str, row: Row) -> bool {
        print!("{}\n{output}", bold(&format!("==> {}: {what}", row.name)));
        self.add(row)
    }

    fn add(&mut self, row: Row) -> bool {
        println!("{row}\n");
        let passed = row.outcome == Outcome::Passed;
        self.rows.push(row);
        passed
    }

    /// Returns whether nothing failed; `strict` asks that everything ran, too.
    pub(crate) fn succeeded(&self, strict: bool) -> bool {
        let [_, failed, skipped] = self.counts();
        failed == 0 && !(strict && skipped > 0)
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
        let (result, reason) = match &self.outcome {
            Outcome::Passed => ("ok", ""),
            Outcome::Failed(reason) => ("FAILED", reason.as_str()),
            Outcome::NotRun(reason) => ("NOT RUN", reason.as_str()),
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

/// Writes the table of steps and the tests that did not run; the last line holds the three counts and nothing else. A step that
/// did not run and a test that did not are both counted as skipped.
impl Display for Report {
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

    fn report(outcomes: [Outcome; 3]) -> Report {
        let rows = outcomes.map(|outcome| Row {
            name: "step",
            outcome,
            not_run: Vec::new(),
            time: Duration::from_millis(1250),
            processors: Duration::from_millis(2500),
        });
        Report { rows: rows.into() }
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
        let mut report = Report::default();
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
        let mut report = Report::default();
        assert!(report.step("good", "passes", |_| Outcome::Passed));
        assert!(!report.step("bad", "fails", |_| Outcome::Failed("no".to_owned())));
        assert_eq!(report.counts(), [1, 1, 0]);
    }
}
