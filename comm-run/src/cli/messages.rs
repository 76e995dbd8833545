//! The messages of `comm-run` itself, on standard error.

use std::fmt::Write as _;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use comm_kit::words;
use comm_run::{Ending, Exit, Notice, Outcome, RankOutcome, Signal, Text, write_fully};

/// How long printing waits for a reader that has stopped reading.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same if the output of the ranks has already waited for a reader in vain.
const IMPATIENCE: Duration = Duration::from_secs(1);

/// Prints one line, before or without a job.
pub(crate) fn line(text: &str) {
    let _ = write_fully(std::io::stderr(), &dressed(text), Some(PATIENCE));
}

/// Prints messages about a job without waiting for the reader, because signals and deadlines must not wait.
#[derive(Debug)]
pub(crate) struct Voice(Text);

impl Voice {
    pub(crate) fn new() -> Self {
        // A closed standard error is no reason to fail.
        let write = |text: &[u8]| write_fully(std::io::stderr(), text, None);
        Self(Text::new("comm-run-report", write))
    }

    /// Prints one line.
    pub(crate) fn line(&self, text: &str) {
        self.0.write(dressed(text));
    }

    /// Prints why the job ended early, if it did, and the last lines of the rank to blame.
    pub(crate) fn ending(&self, outcome: &Outcome, timeout: Option<Duration>) {
        if let Some(text) = ending(outcome, timeout) {
            self.0.write(dressed(text));
        }
    }

    /// Prints events of the running job.
    pub(crate) fn notice(
        &self,
        notice: &Notice<'_>,
        timeout: Option<Duration>,
        max_restarts: usize,
    ) {
        if let Notice::Restarting { outcome, .. } = notice {
            self.ending(outcome, timeout);
        }
        if let Some(text) = happening(notice, max_restarts) {
            self.line(&text);
        }
    }

    /// Waits a limited time until everything is printed; less if another reader `is_still` blocked.
    pub(crate) fn end(&self, is_still: bool) {
        self.0.settle(if is_still { IMPATIENCE } else { PATIENCE });
    }
}

fn happening(notice: &Notice<'_>, max_restarts: usize) -> Option<String> {
    Some(match notice {
        Notice::Stopping {
            signal,
            left,
            grace,
        } => {
            let (ranks, them) = match left {
            1 => ("rank has", "it"),
            _ => ("ranks have", "them"),
            };
            let seconds = grace.as_secs_f64();
            format!(
                "{signal} was passed on; {left} {ranks} {seconds:.0} s left to end, press Ctrl-C to kill {them}"
            )
        }
        Notice::StoppedByTerminal { rank, reads } => {
            let why = if *reads {
                "reads the terminal (SIGTTIN), which ranks cannot do; pass files by name"
            } else {
                "uses the terminal (SIGTTOU), which ranks cannot do; write to standard output"
            };
            format!("rank {rank} is stopped: it {why}, or press Ctrl-C to end the job")
        }
        Notice::NoRing => "some ranks cannot reach each other, so large calls go through rank 0, which is slower; open the \
                           ports of COBRE_TCP_WORKER_PORTS between all ranks"
            .to_owned(),
        Notice::Restarting { restart, .. } => {
            format!("starting again, {restart} of {max_restarts}")
        }
        Notice::NotRestarted(error) => format!("cannot start again: {error}"),
        Notice::EventsLost { lines, error } => {
            let (events, them) = match lines {
                1 => ("event was", "it"),
                _ => ("events were", "them"),
            };
            let nobody = || format!("nobody read {them} in time");
            let why = error.map_or_else(nobody, ToString::to_string);
            format!("{lines} {events} not written: {why}")
        }
        _ => return None,
    })
}

/// Returns why the job ended early, if it did, and the last lines of the rank to blame.
fn ending(outcome: &Outcome, timeout: Option<Duration>) -> Option<Vec<u8>> {
    let headline = match outcome.ending {
        Ending::Completed => return None,
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
    text.extend_from_slice(undelivered(outcome).as_bytes());
    if let Some(why) = &outcome.not_restarted {
        text.extend_from_slice(format!("not started again: {why}\n").as_bytes());
    }
    Some(text)
}

/// Counts the lines that were lost because the job ended early.
fn undelivered(outcome: &Outcome) -> String {
    match outcome.undelivered {
        0 => String::new(),
        1 => "at least 1 line was not written: nobody read it in time\n".into(),
        lines => format!("at least {lines} lines were not written: nobody read them in time\n"),
    }
}

fn headline(outcome: &Outcome, rank: usize) -> String {
    let ended = &outcome.ranks[rank];
    if let (true, Some(exit)) = (outcome.alike, ended.exit) {
        let ranks: Vec<_> = (0..outcome.ranks.len()).collect();
        return format!(
            "{} failed alike: each {exit} after {:.1} s, and none names another",
            self::ranks(outcome, &ranks),
            ended.elapsed.as_secs_f64()
        );
    }
    let how = match (ended.exit, ended.ended_by) {
        (None, _) => "did not end".into(),
        (Some(_), Some(signal)) => format!("hung and was terminated ({signal})"),
        (Some(exit), None) if exit.success() => format!("{exit} before the others were done,"),
        (Some(exit), None) => exit.to_string(),
    };
    format!(
        "rank {} {how} after {:.1} s",
        outcome.first_rank + rank,
        ended.elapsed.as_secs_f64()
    )
}

/// Lists what the other ranks reported: which name the cause, and which name a rank on another machine.
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
        text += &at(outcome);
    }
    let own = outcome.first_rank..outcome.first_rank + outcome.ranks.len();
    let elsewhere =
        |report: &comm_run::PeerReport| report.named.filter(|named| !own.contains(named));
    let found = outcome.ranks.iter().enumerate().find_map(|(place, rank)| {
        let report = rank.report.as_ref()?;
        // A refused call explains why the rank that reports it failed, but no other failure.
        let counts = report.kind != "refused" || outcome.ending == Ending::RankFailed(place);
        Some((place, elsewhere(report).filter(|_| counts)?))
    });
    if let Some((place, named)) = found {
        let by = ranks(outcome, &[place]);
        let what = what(place).unwrap_or("lost");
        let _ = writeln!(
            text,
            "{by} names rank {named}, on another machine, as the cause: {what}; see the output on that machine"
        );
    }
    text
}

/// Lists where the ranks that reported the cause were in the program, grouped by line.
fn at(outcome: &Outcome) -> String {
    const LISTED: usize = 4;
    let mut places: Vec<(&str, Vec<usize>)> = Vec::new();
    for &rank in &outcome.named_by {
        let report = outcome.ranks[rank].report.as_ref();
        let Some(at) = report.and_then(|report| report.at.as_deref()) else {
            continue;
        };
        match places.iter_mut().find(|(known, _)| *known == at) {
            Some((_, ranks)) => ranks.push(rank),
            None => places.push((at, vec![rank])),
        }
    }
    if places.is_empty() {
        return String::new();
    }
    let more = if places.len() > LISTED { ", .." } else { "" };
    let shown = places.iter().take(LISTED);
    let shown = shown.map(|(at, list)| {
        let verb = if list.len() == 1 { "was" } else { "were" };
        format!("{} {verb} at {at}", ranks(outcome, list))
    });
    shown.collect::<Vec<_>>().join(", ") + more + "\n"
}

/// Lists how ranks ended by themselves, if there are several such ranks or somebody stopped the job.
fn codes(outcome: &Outcome) -> String {
    let mut ways: Vec<(Exit, Vec<usize>)> = Vec::new();
    for (place, rank) in outcome.ranks.iter().enumerate() {
        // A rank that got a signal and then exited with a code ended by itself.
        let by_itself = |exit: &Exit| rank.ended_by.is_none() || matches!(exit, Exit::Code(_));
        let Some(exit) = rank.exit.filter(by_itself) else {
            continue;
        };
        match ways.iter_mut().find(|(way, _)| *way == exit) {
            Some((_, places)) => places.push(place),
            None => ways.push((exit, vec![place])),
        }
    }
    // The headline already covers a single rank, and ranks that failed alike; but not those of a stopped job.
    let is_said = outcome.alike || matches!(&ways[..], [(_, places)] if places.len() == 1);
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

/// Lists the ranks that `comm-run` ended, by signal.
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

/// Puts the launcher's name in front of every line.
fn dressed(text: impl AsRef<[u8]>) -> Vec<u8> {
    let (on, off) = if AutoStream::choice(&std::io::stderr()) == ColorChoice::Never {
        ("", "")
    } else {
        ("\x1b[1m", "\x1b[0m")
    };
    let mut out = Vec::new();
    for line in text.as_ref().split_inclusive(|&byte| byte == b'\n') {
        out.extend_from_slice(format!("{on}comm-run:{off} ").as_bytes());
        out.extend_from_slice(line);
    }
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    out
}
