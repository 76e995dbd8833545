//! The report of a rank to the driver, in a separate file that cannot be confused with program output.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

/// How a rank is going to leave without finishing, because its case requires that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// The process is killed by this signal.
    Signal(i32),
    /// The process exits with this code.
    Code(i32),
    /// The rank panics, and unwinds.
    Panic,
}

impl Leaving {
    fn line(self) -> String {
        match self {
            Self::Signal(signal) => format!("leaving signal {signal}"),
            Self::Code(code) => format!("leaving code {code}"),
            Self::Panic => "leaving panic".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            Some(("signal", number)) => number.parse().ok().map(Self::Signal),
            Some(("code", number)) => number.parse().ok().map(Self::Code),
            _ => (text == "panic").then_some(Self::Panic),
        }
    }
}

/// Writes the report of one rank. Every line is in the file before the call returns.
#[derive(Debug)]
pub(crate) struct RankReport {
    file: Mutex<File>,
}

impl RankReport {
    /// Starts the report; a second rank with the same number cannot.
    pub(crate) fn create(path: &Path, rank: usize, size: usize, name: &str) -> io::Result<Self> {
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .open(path)?;
        let report = Self {
            file: Mutex::new(file),
        };
        report.line(&format!("rank {rank} of {size} in {name}"));
        Ok(report)
    }

    /// Reports the rank and size that a communicator returned.
    pub(crate) fn opened(&self, rank: usize, size: usize) {
        self.line(&format!("opened {rank} {size}"));
    }

    /// Reports that this rank is going to leave without finishing.
    pub(crate) fn leaving(&self, how: Leaving) {
        self.line(&how.line());
    }

    /// Reports that the case failed here.
    pub(crate) fn failed(&self, message: &str) {
        self.line(&format!("failed {}", message.escape_debug()));
    }

    /// Reports how long after the death of another rank this one got its error.
    pub(crate) fn told(&self, told: Told) {
        let [took, bound, slack] = [told.took, told.bound, told.slack].map(|it| it.as_nanos());
        self.line(&format!("told {took} {bound} {slack}"));
    }

    /// Reports that this rank panicked as it had announced.
    pub(crate) fn panicked(&self) {
        self.line("panicked");
    }

    /// Reports that the case is complete.
    pub(crate) fn finished(&self) {
        self.line("finished");
    }

    fn line(&self, text: &str) {
        let mut file = self
            .file
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // A rank whose line is not written has not reported, which fails the case.
        let _ = file.write_all(format!("{text}\n").as_bytes());
    }
}

/// How soon a rank got the error about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Told {
    pub(crate) took: Duration,
    /// The time limit.
    pub(crate) bound: Duration,
    /// The measured delay of the machine.
    pub(crate) slack: Duration,
}

impl Told {
    fn parse(text: &str) -> Option<Self> {
        let mut nanos = text.split(' ').map(|nanos| nanos.parse().ok());
        let mut next = || Some(Duration::from_nanos(nanos.next()??));
        Some(Self {
            took: next()?,
            bound: next()?,
            slack: next()?,
        })
    }

    /// Returns whether it passes only because of the slack.
    pub(crate) fn is_excused(&self) -> bool {
        self.took > self.bound
    }
}

/// What a rank has reported.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Account {
    pub(crate) greeting: String,
    pub(crate) opened: Vec<(usize, usize)>,
    pub(crate) leaving: Option<Leaving>,
    pub(crate) failed: Vec<String>,
    pub(crate) told: Vec<Told>,
    pub(crate) panicked: bool,
    pub(crate) finished: bool,
}

impl Account {
    /// Reads a report.
    pub(crate) fn parse(text: &str) -> Self {
        let mut account = Self::default();
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("rank", _)) if account.greeting.is_empty() => {
                    line.clone_into(&mut account.greeting);
                }
                Some(("opened", pair)) => account.opened.extend(parse_pair(pair)),
                Some(("leaving", how)) => account.leaving = Leaving::parse(how),
                Some(("failed", message)) => account.failed.push(message.to_owned()),
                Some(("told", nanos)) => account.told.extend(Told::parse(nanos)),
                _ if line == "panicked" => account.panicked = true,
                _ if line == "finished" => account.finished = true,
                _ => account.failed.push(format!("an unreadable report: {line}")),
            }
        }
        account
    }
}

fn parse_pair(text: &str) -> Option<(usize, usize)> {
    let (rank, size) = text.split_once(' ')?;
    Some((rank.parse().ok()?, size.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_reads_back() {
        let text =
            "rank 1 of 2 in x\nopened 1 2\ntold 7 8 9\nleaving signal 9\nfailed a\\nb\nfinished\n";
        let account = Account::parse(text);
        assert_eq!(account.greeting, "rank 1 of 2 in x");
        assert_eq!(account.opened, [(1, 2)]);
        let [took, bound, slack] = [7, 8, 9].map(Duration::from_nanos);
        assert_eq!(account.told, [Told { took, bound, slack }]);
        assert_eq!(account.leaving, Some(Leaving::Signal(9)));
        assert_eq!(account.failed, ["a\\nb"]);
        assert!(account.finished && !account.panicked);
    }

    #[test]
    fn what_cannot_be_read_is_a_failure() {
        assert_eq!(Account::parse("finishe").failed.len(), 1);
    }

    #[test]
    fn leavings_read_back() {
        for how in [Leaving::Signal(9), Leaving::Code(0), Leaving::Panic] {
            let account = Account::parse(&how.line());
            assert_eq!(account.leaving, Some(how));
        }
    }
}
