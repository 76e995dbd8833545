//! Runs all contenders in turns, on one backend with one number of ranks.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;

use super::Bench;
use super::book::Book;
use super::build::Programs;
use super::contender::{Contender, Setting};
use super::figure::Figure;
use super::plan::Contest;
use super::record::Record;
use super::row::{Op, Row};
use super::{start_up, watch};

/// Additional time for the start, before the first figure.
const START: Duration = Duration::from_secs(10);

/// After this many consecutive programs that failed without a figure, a contender is left out.
const FRUITLESS: u32 = 3;

/// The result of a contest.
#[derive(Debug)]
pub(super) struct Results {
    pub(super) contest: Contest,
    pub(super) book: Book,
    /// Whether ours ran without failures.
    pub(super) good: bool,
}

/// Runs all rounds with one backend and one number of ranks.
pub(super) fn play(
    contest: Contest,
    bench: &Bench,
    programs: &Programs,
    record: &mut Record,
    progress: &ProgressBar,
) -> Result<Results, String> {
    let Setting { backend, ranks, .. } = contest.setting;
    let mut book = Book::default();
    let mut good = true;
    let mut written = Ok(());
    for line in &contest.left_out {
        progress.suspend(|| eprintln!("{line}"));
    }
    let mut entrants = contest.entrants();
    for round in 1..=bench.rounds {
        let place = format!(
            "{backend}, {ranks} ranks, round {round}",
            backend = backend.name()
        );
        // Each round starts with another contender.
        entrants.rotate_left(1);
        for entrant in &mut entrants {
            let who = entrant.contender;
            let name = who.name();
            progress.set_message(format!("{place} of {}, {name}", bench.rounds));
            let run = |rows: &[Row], tell: &mut dyn FnMut(Figure)| {
                program(who, &contest.setting, programs, rows, tell)
            };
            let mut tell = |figure: Figure| {
                progress.inc(1);
                book.figure(round, who, &figure);
                let line = figure.to_string();
                let values = line.trim_start_matches("timing,");
                let added = record.add((backend, ranks, round), name, values);
                if written.is_ok() {
                    written = added;
                }
            };
            let mut notes = entrant.turn(run, &mut tell);
            notes.extend(entrant.start(|| starts(who, &contest.setting, programs), tell));
            for note in &notes {
                progress.suspend(|| eprintln!("{place}, {name}: {note}"));
            }
            good &= notes.is_empty() || !matches!(who, Contender::Ours | Contender::Other);
            written.clone()?;
        }
    }
    Ok(Results {
        contest,
        book,
        good,
    })
}

/// Times the start of a contender's ranks.
fn starts(who: Contender, setting: &Setting, programs: &Programs) -> Result<Figure, String> {
    let store = Path::new("");
    let prepare = || who.command(setting, programs, store, &[start_up::ROW]);
    start_up::time(prepare, setting.seconds, limit(setting))
}

/// Returns how long a program may run without output.
fn limit(setting: &Setting) -> Duration {
    START + Duration::from_secs(setting.limit.into())
}

/// Runs the program of a contender to its end.
fn program(
    who: Contender,
    setting: &Setting,
    programs: &Programs,
    rows: &[Row],
    tell: &mut dyn FnMut(Figure),
) -> Result<(), String> {
    // The ranks of Gloo find each other in it.
    let store = tempfile::tempdir().map_err(|why| format!("no scratch folder: {why}"))?;
    let command = who.command(setting, programs, store.path(), rows);
    watch::run(command, rows.len(), limit(setting), tell)
}

/// A contender, and the rows that it still measures.
#[derive(Debug)]
pub(super) struct Entrant {
    contender: Contender,
    rows: Vec<Row>,
    /// Whether its start is timed, in separate programs.
    starts: bool,
    fruitless: u32,
}

impl Entrant {
    pub(super) fn new(contender: Contender, mut rows: Vec<Row>) -> Self {
        rows.retain(|row| contender.knows(row.op));
        let starts = rows.contains(&start_up::ROW);
        rows.retain(|row| row.op != Op::StartUp);
        Self {
            contender,
            rows,
            starts,
            fruitless: 0,
        }
    }

    /// Times the start, unless it failed before. Returns a note for readers of the table.
    fn start(
        &mut self,
        time: impl FnOnce() -> Result<Figure, String>,
        tell: impl FnOnce(Figure),
    ) -> Option<String> {
        if !self.starts {
            return None;
        }
        match time() {
            Ok(figure) => {
                tell(figure);
                None
            }
            Err(reason) => {
                self.starts = false;
                Some(format!("{} given up: {reason}", start_up::ROW))
            }
        }
    }

    /// Measures all rows once. If a program does not finish a row, this contender does not try it again, now or in later
    /// rounds, and a new program continues with the next row. Returns notes for readers of the table.
    fn turn(
        &mut self,
        mut run: impl FnMut(&[Row], &mut dyn FnMut(Figure)) -> Result<(), String>,
        mut tell: impl FnMut(Figure),
    ) -> Vec<String> {
        let mut notes = Vec::new();
        let mut first = 0;
        while first < self.rows.len() {
            let mut done = 0;
            let end = run(&self.rows[first..], &mut |figure: Figure| {
                if self.rows.get(first + done) == Some(&figure.row) {
                    done += 1;
                    tell(figure);
                }
            });
            first += done;
            let reason = match end {
                Ok(()) if first == self.rows.len() => break,
                Ok(()) => "it ended before its last row".to_owned(),
                Err(reason) => reason,
            };
            if first == self.rows.len() {
                notes.push(format!("after its last row: {reason}"));
                break;
            }
            notes.push(format!("{} given up: {reason}", self.rows.remove(first)));
            self.fruitless = if done == 0 { self.fruitless + 1 } else { 0 };
            if self.fruitless == FRUITLESS && first < self.rows.len() {
                notes.push("left out from here on: no figures".to_owned());
                self.rows.clear();
            }
        }
        notes
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender::Peer;
    use super::super::row::Op;
    use super::super::tests::figure;
    use super::*;

    fn rows() -> Vec<Row> {
        [8, 16, 24, 32, 40]
            .map(|bytes| Row::new(Op::Allreduce, bytes))
            .into()
    }

    /// Runs one turn of a program that fails at the rows for which `fails` is true; returns its figures and notes.
    fn turn(entrant: &mut Entrant, fails: fn(Row) -> bool) -> (Vec<usize>, Vec<String>, usize) {
        let mut measured = Vec::new();
        let mut programs = 0;
        let notes = entrant.turn(
            |rows, tell| {
                programs += 1;
                for &row in rows {
                    if fails(row) {
                        return Err("it broke".to_owned());
                    }
                    tell(figure(row, 1.0));
                }
                Ok(())
            },
            |figure| measured.push(figure.row.bytes),
        );
        (measured, notes, programs)
    }

    #[test]
    fn a_row_that_fails_costs_the_others_nothing_and_is_not_tried_again() {
        let mut entrant = Entrant::new(Contender::Peer(Peer::Mpich), rows());
        let (measured, notes, programs) = turn(&mut entrant, |row| row.bytes == 16);
        assert_eq!((measured, programs), (vec![8, 24, 32, 40], 2));
        assert_eq!(notes, ["allreduce 16 B given up: it broke"]);
        let (measured, notes, programs) = turn(&mut entrant, |row| row.bytes == 16);
        assert_eq!((measured, programs), (vec![8, 24, 32, 40], 1));
        assert!(notes.is_empty());
    }

    #[test]
    fn who_only_fails_is_left_out() {
        let mut entrant = Entrant::new(Contender::Peer(Peer::Mpich), rows());
        let (measured, notes, programs) = turn(&mut entrant, |_| true);
        assert_eq!((measured.len(), programs), (0, 3));
        assert!(notes[3].starts_with("left out"), "{notes:?}");
        assert_eq!(turn(&mut entrant, |_| false).2, 0);
    }

    #[test]
    fn ending_early_is_a_failure_and_so_is_ending_badly() {
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let early = entrant.turn(|_, _| Ok(()), |_| {});
        assert!(early[0].contains("ended before its last row"), "{early:?}");
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let notes = entrant.turn(
            |rows, tell| {
                for &row in rows {
                    tell(figure(row, 1.0));
                }
                Err("exit status: 1".to_owned())
            },
            |_| {},
        );
        assert_eq!(notes, ["after its last row: exit status: 1"]);
    }

    #[test]
    fn a_figure_of_another_row_does_not_count() {
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let mut measured = 0;
        let run = |_: &[Row], tell: &mut dyn FnMut(Figure)| {
            tell(figure(Row::new(Op::Barrier, 0), 1.0));
            Ok(())
        };
        let notes = entrant.turn(run, |_| measured += 1);
        assert!(measured == 0 && !notes.is_empty());
    }

    #[test]
    fn a_start_is_timed_in_a_program_of_its_own_until_it_fails() {
        let mut rows = rows();
        rows.push(start_up::ROW);
        let mut entrant = Entrant::new(Contender::Ours, rows.clone());
        assert_eq!(turn(&mut entrant, |_| false).0.len(), 5);
        let mut told = 0;
        let mut start = |result| entrant.start(|| result, |_| told += 1);
        assert_eq!(start(Ok(figure(start_up::ROW, 1.0))), None);
        let note = start(Err("it broke".to_owned()));
        assert_eq!(note.as_deref(), Some("start-up given up: it broke"));
        assert_eq!(start(Ok(figure(start_up::ROW, 1.0))), None);
        assert_eq!(told, 1);
        assert!(!Entrant::new(Contender::Peer(Peer::Gloo), rows).starts);
    }

    #[test]
    fn a_peer_is_not_asked_for_what_only_ours_measures() {
        let rows = vec![Row::new(Op::Copy, 8), Row::new(Op::Allreduce, 8)];
        assert_eq!(
            Entrant::new(Contender::Peer(Peer::Gloo), rows.clone()).rows,
            rows[1..]
        );
        assert_eq!(Entrant::new(Contender::Other, rows.clone()).rows, rows);
    }
}
