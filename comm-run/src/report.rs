//! What `comm-run` itself prints on standard error.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use anstream::{AutoStream, ColorChoice};
use comm_run::{Ending, Outcome, Signal, StartError};

/// Prints why the job did not start.
pub(crate) fn error(error: &StartError) {
    line(&error.to_string());
}

/// Prints one line.
pub(crate) fn line(text: &str) {
    print(format!("{text}\n").as_bytes());
}

/// Prints why the job ended early, if it did, and the last lines of the rank to blame.
pub(crate) fn ending(outcome: &Outcome, timeout: Option<Duration>) {
    let headline = match outcome.ending {
        Ending::Completed => return,
        Ending::RankFailed(rank) => headline(outcome, rank),
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
    }
    text.extend_from_slice(ended(outcome).as_bytes());
    print(&text);
}

fn headline(outcome: &Outcome, rank: usize) -> String {
    let ended = &outcome.ranks[rank];
    let how = ended
        .exit
        .map_or_else(|| "did not end".into(), |exit| exit.to_string());
    format!(
        "rank {} {how} after {:.1} s",
        outcome.first_rank + rank,
        ended.elapsed.as_secs_f64()
    )
}

fn last_lines(outcome: &Outcome, rank: usize, text: &mut Vec<u8>) {
    let lines = &outcome.ranks[rank].last_lines;
    let rank = outcome.first_rank + rank;
    if lines.is_empty() {
        text.extend_from_slice(format!("rank {rank} wrote nothing\n").as_bytes());
        return;
    }
    text.extend_from_slice(format!("the last lines of rank {rank}:\n").as_bytes());
    for line in lines {
        text.extend_from_slice(format!("  [{rank}] ").as_bytes());
        text.extend_from_slice(&line.bytes);
        text.push(b'\n');
    }
}

/// Lists the ranks that had to be ended, by the signal that did it.
fn ended(outcome: &Outcome) -> String {
    let mut text = String::new();
    let by = |signal: Option<Signal>| {
        let ranks = outcome.ranks.iter().enumerate();
        let ranks = ranks.filter(|(_, rank)| rank.ended_by == signal && signal.is_some());
        ranks
            .map(|(number, _)| (outcome.first_rank + number).to_string())
            .collect::<Vec<_>>()
    };
    for signal in [
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Terminate,
        Signal::Kill,
    ] {
        let ranks = by(Some(signal));
        if !ranks.is_empty() {
            let noun = if ranks.len() == 1 { "rank" } else { "ranks" };
            let _ = writeln!(text, "ended {noun} {} with {signal}", ranks.join(", "));
        }
    }
    for (number, rank) in outcome
        .ranks
        .iter()
        .enumerate()
        .filter(|(_, rank)| rank.exit.is_none())
    {
        let _ = writeln!(
            text,
            "rank {} (process {}) did not end after SIGKILL: it may be stuck in the kernel",
            outcome.first_rank + number,
            rank.pid
        );
    }
    text
}

/// Prints every line with the launcher's name in front. Who reads standard error may be gone; that
/// is no reason to panic.
fn print(text: &[u8]) {
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
    let _ = std::io::stderr().write_all(&out);
}
