//! The table: clause, case, world, time and result of every job, and what is not promised.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Instant;

use super::{Job, Selection, pool};
use crate::clause::Clause;
use crate::clock::MOST_SLACK;
use crate::report::Told;

/// Counts the jobs of one clause.
#[derive(Debug, Default)]
struct Tally {
    passed: usize,
    failed: usize,
    left_out: Option<&'static str>,
}

/// Runs the selected jobs and prints each as it ends.
pub(super) fn run(subject: &str, selection: &Selection) -> ExitCode {
    match print(subject, selection, &mut io::stdout().lock()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(reason) => super::usage(&format!("cannot print the table: {reason}")),
    }
}

fn print(subject: &str, selection: &Selection, out: &mut impl Write) -> io::Result<usize> {
    let cases = selection.jobs.iter().map(|job| &job.case.name);
    let left_out = selection.left_out.iter().map(|(case, _)| &case.name);
    let not_run = selection.not_run.iter().map(|(case, _)| &case.name);
    let width = cases
        .chain(left_out)
        .chain(not_run)
        .map(String::len)
        .max()
        .unwrap_or(0);
    let mut tallies: BTreeMap<Clause, Tally> = BTreeMap::new();
    let mut failures = Vec::new();
    let mut told = Vec::new();
    let start = Instant::now();

    writeln!(out, "conformance of {subject}\n")?;
    writeln!(
        out,
        "{:<12} {:<width$} {:<9} {:>9}  result",
        "clause", "case", "world", "time"
    )?;
    let clocked = |job: &Job| {
        let begin = Instant::now();
        let result = job.run();
        (begin.elapsed().as_secs_f64(), result)
    };
    pool::in_order(
        &selection.jobs,
        selection.at_once,
        clocked,
        |job, (time, result)| {
            let world = format!("{}{}", job.world, job.placement.suffix());
            let (clauses, name) = (job.clauses(), &job.case.name);
            let mark = if result.is_ok() { "pass" } else { "FAIL" };
            writeln!(
                out,
                "{clauses:<12} {name:<width$} {world:<9} {time:>7.3} s  {mark}"
            )?;
            out.flush()?;
            for &clause in job.case.clauses {
                let tally = tallies.entry(clause).or_default();
                match &result {
                    Ok(_) => tally.passed += 1,
                    Err(_) => tally.failed += 1,
                }
            }
            match result {
                Ok(times) => told.extend(times),
                Err(reason) => failures.push((job.name(), reason)),
            }
            io::Result::Ok(())
        },
    )?;
    for (case, reason) in &selection.left_out {
        let names: Vec<String> = case.clauses.iter().map(ToString::to_string).collect();
        let (clauses, name) = (names.join(" "), &case.name);
        writeln!(
            out,
            "{clauses:<12} {name:<width$} {:<9} {:>9}  not promised: {reason}",
            "-", "-"
        )?;
        for &clause in case.clauses {
            tallies.entry(clause).or_default().left_out = Some(reason);
        }
    }
    for (case, reason) in &selection.not_run {
        let names: Vec<String> = case.clauses.iter().map(ToString::to_string).collect();
        let (clauses, name) = (names.join(" "), &case.name);
        writeln!(
            out,
            "{clauses:<12} {name:<width$} {:<9} {:>9}  not run: {reason}",
            "-", "-"
        )?;
    }
    summary(out, &tallies)?;
    deaths(out, told)?;
    for (name, reason) in &failures {
        writeln!(out, "\nFAIL {name}\n{reason}")?;
    }
    let (passed, failed) = (selection.jobs.len() - failures.len(), failures.len());
    writeln!(
        out,
        "\n{subject}: {passed} passed, {failed} failed, {} cases not promised, {} not run, {:.1} s",
        selection.left_out.len(),
        selection.not_run.len(),
        start.elapsed().as_secs_f64()
    )?;
    Ok(failed)
}

/// Prints how soon the survivors of a death got their errors.
fn deaths(out: &mut impl Write, mut told: Vec<Told>) -> io::Result<()> {
    told.sort_unstable();
    let Some(&Told { took: worst, .. }) = told.last() else {
        return Ok(());
    };
    let (count, median) = (told.len(), told[told.len() / 2].took);
    writeln!(
        out,
        "\nsurvivors told of a death: {count}, median {median:.2?}, worst {worst:.2?} after it"
    )?;
    let excused = told.iter().filter(|told| told.is_excused()).count();
    let slack = told.iter().map(|told| told.slack).max().unwrap_or_default();
    writeln!(
        out,
        "slack that the machine was measured to need: {slack:.2?} at most, {MOST_SLACK:?} is the cap; {excused} needed it"
    )
}

/// Prints the result of every clause.
fn summary(out: &mut impl Write, tallies: &BTreeMap<Clause, Tally>) -> io::Result<()> {
    writeln!(out)?;
    for clause in Clause::ALL {
        let text = match tallies.get(&clause) {
            None => "no case was selected".to_owned(),
            Some(Tally { failed, passed, .. }) if *failed > 0 => {
                format!("BROKEN: {failed} of {} jobs failed", failed + passed)
            }
            Some(Tally {
                passed: 0,
                left_out: Some(reason),
                ..
            }) => format!("not promised: {reason}"),
            Some(Tally { passed, .. }) => format!("kept: {passed} jobs passed"),
        };
        writeln!(out, "{clause:<4} {:<20} {text}", clause.title())?;
    }
    Ok(())
}
