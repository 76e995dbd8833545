//! A file of figures: a description of the measurement, and a line for each call, with a column for each round.

use std::collections::BTreeMap;
use std::path::Path;

use csv::{ReaderBuilder, Writer};

use super::super::book::Rounds;

/// The columns in front of those of the rounds.
const COLUMNS: [&str; 5] = ["backend", "ranks", "contender", "call", "figure"];

/// Figures, with a description of their measurement.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Sheet {
    /// Names and values: the date, the machine, ..
    pub(super) about: BTreeMap<String, String>,
    pub(super) lines: Vec<Line>,
}

/// One figure of a call, in all rounds.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) backend: String,
    pub(super) ranks: usize,
    pub(super) contender: String,
    /// `barrier:0`, `allreduce:32`, ..
    pub(super) call: String,
    /// The measured quantity, with its unit.
    pub(super) figure: String,
    pub(super) rounds: Rounds,
}

impl Sheet {
    /// Reads a file.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|why| format!("{}: {why}", path.display()))?;
        Self::parse(&text).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let about = text.lines().filter_map(|line| line.strip_prefix("# "));
        let about = about.filter_map(|line| line.split_once(": "));
        let about = about.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let mut sheet = Self {
            about: about.collect(),
            lines: Vec::new(),
        };
        let mut reader = ReaderBuilder::new()
            .comment(Some(b'#'))
            .from_reader(text.as_bytes());
        for record in reader.records() {
            let record = record.map_err(|why| why.to_string())?;
            let cells: Vec<&str> = record.iter().collect();
            let line = line(&cells).ok_or_else(|| format!("not a line of figures: {cells:?}"))?;
            sheet.lines.push(line);
        }
        Ok(sheet)
    }

    /// Returns the text of the file.
    pub(super) fn text(&self) -> Result<String, String> {
        let about = self.about.iter();
        let about: Vec<String> = about
            .map(|(name, value)| format!("# {name}: {value}\n"))
            .collect();
        let all = self
            .lines
            .iter()
            .filter_map(|line| line.rounds.keys().max());
        let most = all.max().copied().unwrap_or_default();
        let mut table = Writer::from_writer(Vec::new());
        let columns = COLUMNS.map(str::to_owned).into_iter();
        let numbers = (1..=most).map(|round| round.to_string());
        let mut write = |cells: Vec<String>| table.write_record(cells);
        let mut written = write(columns.chain(numbers).collect());
        for line in &self.lines {
            written = written.and_then(|()| write(line.cells(most)));
        }
        written.map_err(|why| why.to_string())?;
        let table = table.into_inner().map_err(|why| why.to_string())?;
        Ok(about.concat() + &String::from_utf8_lossy(&table))
    }

    /// Returns an entry of the description by its name.
    pub(super) fn about(&self, name: &str) -> &str {
        self.about.get(name).map_or("unknown", String::as_str)
    }
}

impl Line {
    fn cells(&self, rounds: u32) -> Vec<String> {
        let ranks = self.ranks.to_string();
        let names = [
            &self.backend,
            &ranks,
            &self.contender,
            &self.call,
            &self.figure,
        ];
        let time = |round| self.rounds.get(&round).map(|time| format!("{time:.3}"));
        let times = (1..=rounds).map(|round| time(round).unwrap_or_default());
        names.into_iter().cloned().chain(times).collect()
    }
}

fn line(cells: &[&str]) -> Option<Line> {
    let [backend, ranks, contender, call, figure, rounds @ ..] = cells else {
        return None;
    };
    let rounds = (1..).zip(rounds).filter(|(_, cell)| !cell.is_empty());
    let rounds = rounds.map(|(round, cell)| Some((round, cell.parse().ok()?)));
    Some(Line {
        backend: (*backend).to_owned(),
        ranks: ranks.parse().ok()?,
        contender: (*contender).to_owned(),
        call: (*call).to_owned(),
        figure: (*figure).to_owned(),
        rounds: rounds.collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_absent_rounds_stay_absent() {
        let line = |contender: &str, rounds: &[(u32, f64)]| Line {
            backend: "shm".to_owned(),
            ranks: 2,
            contender: contender.to_owned(),
            call: "barrier:0".to_owned(),
            figure: "median_us".to_owned(),
            rounds: rounds.iter().copied().collect(),
        };
        let sheet = Sheet {
            about: [("machine".to_owned(), "a, b: c".to_owned())].into(),
            lines: vec![line("ours", &[(1, 0.25), (3, 12.5)]), line("gloo", &[])],
        };
        let text = sheet.text().unwrap();
        let expected = "# machine: a, b: c\nbackend,ranks,contender,call,figure,1,2,3\n\
                        shm,2,ours,barrier:0,median_us,0.250,,12.500\nshm,2,gloo,barrier:0,median_us,,,\n";
        assert_eq!(text, expected);
        assert_eq!(Sheet::parse(&text), Ok(sheet));
    }

    #[test]
    fn other_lines_are_refused() {
        let head = "backend,ranks,contender,call,figure,1\n";
        for line in [
            "shm,two,ours,barrier:0,median_us,1",
            "shm,2,ours,barrier:0,median_us,x",
            "shm,2",
        ] {
            assert!(Sheet::parse(&format!("{head}{line}\n")).is_err(), "{line}");
        }
    }
}
