//! What `comm-run` itself prints on standard error.

use std::fmt::Write as _;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use comm_kit::words;
use comm_run::{Ending, Exit, Notice, Outcome, RankOutcome, Signal, StartError, write_fully};

/// How long the report of a job that must end soon waits for a reader that stands still.
const HURRIED: Duration = Duration::from_secs(5);

/// Prints why the job did not start.
pub(crate) fn error(error: &StartError) {
    line(&error.to_string());
}

/// Prints one line.
pub(crate) fn line(text: &str) {
    print(format!("{text}\n").as_bytes(), None);
}

/// Prints what happens while the job goes on.
pub(crate) fn notice(notice: &Notice<'_>, timeout: Option<Duration>, max_restarts: usize) {
    match notice {
        Notice::Stopping {
            signal,
            left,
            grace,
        } => {
            let ranks = if *left == 1 { "rank has" } else { "ranks have" };
            let seconds = grace.as_secs_f64();
            line(&format!(
                "{signal} was passed on; {left} {ranks} {seconds:.0} s to end, press Ctrl-C to kill"
            ));
        }
        Notice::Restarting { outcome, restart } => {
            ending(outcome, timeout);
            line(&format!("starting again, {restart} of {max_restarts}"));
        }
        Notice::NoRing => line(
            "some ranks cannot reach each other, so large calls go through rank 0, which is slower; open the ports of \
             COBRE_TCP_WORKER_PORTS between all ranks",
        ),
        Notice::EventsLost(error) => line(&format!("the events cannot be written: {error}")),
        Notice::NotRestarted(error) => line(&format!("cannot start again: {error}")),
        _ => {}
    }
}

/// Prints why the job ended early, if it did, and the last lines of the rank to blame.
pub(crate) fn ending(outcome: &Outcome, timeout: Option<Duration>) {
    let headline = match outcome.ending {
        Ending::Completed => return,
        Ending::RankFailed(rank) | Ending::Unknown(rank) => headline(outcome, rank),
        Ending::TimedOut => {
            let seconds = timeout.unwrap_or_default().as_secs_f64();
            format!("the job timed out after {seconds} s")
        }
        Ending::Stopped(signal) => format!("stopped by {signal}"),
        Ending::OutputLost => match &outcome.output_error {
            Some(error) => format!("the output cannot be written: {error}"),
            None => "the output cannot be written".into(),
        },
        _ => "the job did not complete".into(),
    };
    let mut text = headline.into_bytes();
    text.push(b'\n');
    if let Ending::RankFailed(rank) = outcome.ending {
        last_lines(outcome, rank, &mut text);
        text.extend_from_slice(named(outcome).as_bytes());
    }
    text.extend_from_slice(codes(outcome).as_bytes());
    text.extend_from_slice(ended(outcome).as_bytes());
    let hurried = matches!(outcome.ending, Ending::Stopped(_) | Ending::TimedOut);
    print(&text, hurried.then_some(HURRIED));
}

fn headline(outcome: &Outcome, rank: usize) -> String {
    let ended = &outcome.ranks[rank];
    let how = match (ended.exit, ended.ended_by) {
        (None, _) => "did not end".into(),
        (Some(_), Some(signal)) => format!("did not go on, and was ended with {signal}"),
        (Some(exit), None) if exit.success() => format!("{exit}, before the others were done,"),
        (Some(exit), None) => exit.to_string(),
    };
    format!(
        "rank {} {how} after {:.1} s",
        outcome.first_rank + rank,
        ended.elapsed.as_secs_f64()
    )
}

/// Tells what the others reported: who names the cause, and who names a rank on another machine.
fn named(outcome: &Outcome) -> String {
    let mut text = String::new();
    let what = |place: usize| {
        outcome.ranks[place]
            .report
            .as_ref()
            .map(|report| &*report.what)
    };
    if let Some(&first) = outcome.named_by.first() {
        let by = ranks(outcome, &outcome.named_by);
        let what = what(first).unwrap_or("lost");
        let _ = writeln!(text, "{by} reported it: {what}");
    }
    let own = outcome.first_rank..outcome.first_rank + outcome.ranks.len();
    let elsewhere =
        |report: &comm_run::PeerReport| report.named.filter(|named| !own.contains(named));
    let found = outcome.ranks.iter().enumerate().find_map(|(place, rank)| {
        let report = rank.report.as_ref()?;
        // Who refused a call explains the end of whoever ended with that, and of nobody else.
        let counts = report.kind != "refused" || outcome.ending == Ending::RankFailed(place);
        Some((place, elsewhere(report).filter(|_| counts)?))
    });
    if let Some((place, named)) = found {
        let by = ranks(outcome, &[place]);
        let what = what(place).unwrap_or("lost");
        let _ = writeln!(
            text,
            "{by} names rank {named}, on another machine, as the cause: {what}; see what was printed there"
        );
    }
    text
}

/// Lists all ways in which ranks ended by themselves, if there are several such ranks, or if they were asked to.
fn codes(outcome: &Outcome) -> String {
    let mut ways: Vec<(Exit, Vec<usize>)> = Vec::new();
    for (place, rank) in outcome.ranks.iter().enumerate() {
        // What was asked to end, and exits with a code, does so by itself.
        let by_itself = |exit: &Exit| rank.ended_by.is_none() || matches!(exit, Exit::Code(_));
        let Some(exit) = rank.exit.filter(by_itself) else {
            continue;
        };
        match ways.iter_mut().find(|(way, _)| *way == exit) {
            Some((_, places)) => places.push(place),
            None => ways.push((exit, vec![place])),
        }
    }
    // The headline has said it all of one rank, unless somebody asked for the end.
    let is_said = matches!(&ways[..], [(_, places)] if places.len() == 1);
    if ways.is_empty() || is_said && !matches!(outcome.ending, Ending::Stopped(_)) {
        return String::new();
    }
    let ways = ways
        .iter()
        .map(|(exit, places)| format!("{} {exit}", ranks(outcome, places)));
    ways.collect::<Vec<_>>().join("; ") + "\n"
}

/// Names ranks of this machine by their numbers in the whole job.
fn ranks(outcome: &Outcome, places: &[usize]) -> String {
    let numbers = places.iter().map(|place| outcome.first_rank + place);
    words::ranks(&numbers.collect::<Vec<_>>())
}

fn last_lines(outcome: &Outcome, rank: usize, text: &mut Vec<u8>) {
    let (lines, panic) = (
        &outcome.ranks[rank].last_lines,
        &outcome.ranks[rank].panic_lines,
    );
    let rank = outcome.first_rank + rank;
    if lines.is_empty() {
        text.extend_from_slice(format!("rank {rank} wrote nothing\n").as_bytes());
        return;
    }
    let mut list = |what: &str, lines: &mut dyn Iterator<Item = &Vec<u8>>| {
        text.extend_from_slice(format!("{what} of rank {rank}:\n").as_bytes());
        for line in lines {
            text.extend_from_slice(format!("  [{rank}] ").as_bytes());
            text.extend_from_slice(line);
            text.push(b'\n');
        }
    };
    if !panic.is_empty() {
        list("the panic", &mut panic.iter());
    }
    list("the last lines", &mut lines.iter().map(|line| &line.bytes));
}

/// Lists the ranks that had to be ended, by the signal that did it.
fn ended(outcome: &Outcome) -> String {
    let mut text = String::new();
    let those = |condition: &dyn Fn(&RankOutcome) -> bool| -> Vec<usize> {
        let ranks = (outcome.first_rank..).zip(&outcome.ranks);
        let ranks = ranks.filter(|(_, rank)| condition(rank));
        ranks.map(|(number, _)| number).collect()
    };
    for signal in [
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
        Signal::Terminate,
        Signal::Kill,
    ] {
        let ranks = those(&|rank| rank.ended_by == Some(signal));
        if !ranks.is_empty() {
            let _ = writeln!(text, "ended {} with {signal}", words::ranks(&ranks));
        }
    }
    let stuck = those(&|rank| rank.exit.is_none());
    if let [first, ..] = *stuck {
        let pid = outcome.ranks[first - outcome.first_rank].pid;
        let _ = writeln!(
            text,
            "{} did not end after SIGKILL and may be stuck in the kernel: look at process {pid}",
            words::ranks(&stuck)
        );
    }
    text
}

/// Prints every line with the launcher's name in front. Who reads standard error may be gone; that
/// is no reason to panic. Who reads slowly is waited for, but not beyond `patience`.
fn print(text: &[u8], patience: Option<Duration>) {
    let (on, off) = if AutoStream::choice(&std::io::stderr()) == ColorChoice::Never {
        ("", "")
    } else {
        ("\x1b[1m", "\x1b[0m")
    };
    let mut out = Vec::new();
    for line in text.split_inclusive(|&byte| byte == b'\n') {
        out.extend_from_slice(format!("{on}comm-run:{off} ").as_bytes());
        out.extend_from_slice(line);
    }
    let _ = write_fully(std::io::stderr(), &out, patience);
}
