//! The progress of the solver: a bar on a terminal, its lines everywhere else.

use std::io::{BufRead, BufReader, IsTerminal, stdout};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// The results of a run.
#[derive(Debug, Default)]
pub(super) struct Ran {
    pub(super) checksum: String,
    pub(super) iterations: usize,
    pub(super) time: Duration,
    /// The policy file that the run wrote.
    pub(super) policy: Vec<u8>,
}

/// Runs the solver to its end and shows its whole output if `whole`, otherwise only its progress.
///
/// # Errors
///
/// If it fails, or prints no checksum. Its own error message went to standard error.
pub(super) fn watch(mut command: Command, iterations: u64, whole: bool) -> Result<Ran, String> {
    let start = Instant::now();
    let mut solver = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|why| format!("{} cannot start: {why}", command.get_program().display()))?;
    let bar = stdout().is_terminal().then(|| bar(iterations));
    let mut ran = Ran::default();
    let mut kept = Vec::new();
    let lines = solver.stdout.take().map(BufReader::new);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line.map_err(|why| format!("its output cannot be read: {why}"))?;
        let line = line.strip_prefix("[0] ").unwrap_or(&line);
        let bounds = bounds(line);
        if let Some(checksum) = line.strip_prefix("policy checksum ") {
            checksum.clone_into(&mut ran.checksum);
        }
        if bounds.is_some() {
            ran.iterations += 1;
        }
        match (&bar, bounds) {
            (Some(bar), Some((lower, upper))) => {
                bar.inc(1);
                bar.set_message(format!("lower bound {lower}, upper bound {upper}"));
                kept.push(line.to_owned());
            }
            (Some(_), None) => kept.push(line.to_owned()),
            (None, _) if whole => println!("{line}"),
            (None, _) => {}
        }
    }
    if let Some(bar) = bar {
        bar.finish_and_clear();
        if whole {
            println!("{}", kept.join("\n"));
        }
    }
    let status = solver
        .wait()
        .map_err(|why| format!("its end is unknown: {why}"))?;
    ran.time = start.elapsed();
    if !status.success() {
        return Err(format!("the solver failed: {status}"));
    }
    if ran.checksum.is_empty() {
        return Err("the solver did not print the checksum of its policy".to_owned());
    }
    if !whole {
        println!(
            "{} iterations in {:.1} s, policy checksum {}",
            ran.iterations,
            ran.time.as_secs_f64(),
            ran.checksum
        );
    }
    Ok(ran)
}

fn bar(iterations: u64) -> ProgressBar {
    let bar = ProgressBar::new(iterations);
    // The test below would find a wrong template; without a template the bar is plainer.
    if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

const TEMPLATE: &str = "[{bar:30}] iteration {pos} of {len}, {msg}";

/// Reads the lower and the upper bound from a row of the table, if the line is one.
fn bounds(line: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [iteration, lower, upper, _, _, "%"] = words[..] else {
        return None;
    };
    let numbers = iteration.parse::<u64>().is_ok() && lower.parse::<f64>().is_ok();
    numbers.then_some((lower, upper))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_table_are_recognised() {
        let row = "        3      19919.315290      27551.960461     7145.23    27.70 %";
        assert_eq!(bounds(row), Some(("19919.315290", "27551.960461")));
        for other in [
            "iteration       lower bound       upper bound   +- (95 %)        gap",
            "   0     0.837 s        0.392 s    0.592 s     1.8 MB",
            "",
        ] {
            assert_eq!(bounds(other), None, "{other}");
        }
    }

    #[test]
    fn the_template_is_one() {
        ProgressStyle::with_template(TEMPLATE).unwrap();
    }

    #[test]
    fn a_run_that_fails_or_prints_no_checksum_is_an_error() {
        let run = |script: &str| {
            let mut shell = Command::new("sh");
            shell.args(["-c", script]);
            watch(shell, 1, false)
        };
        assert!(run("exit 3").unwrap_err().contains("exit status: 3"));
        assert!(run("echo hello").unwrap_err().contains("checksum"));
        let ran = run("echo '[0] policy checksum 12ab'").unwrap();
        assert_eq!(ran.checksum, "12ab");
    }
}
