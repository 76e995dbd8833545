//! Lets all contenders run in turns: one backend, one number of ranks.

use std::fs;
use std::time::Duration;

use super::book::Book;
use super::contender::{Contender, Setting};
use super::figure::Figure;
use super::row::Row;
use super::watch;

/// Starting takes time, too, before there is a first figure.
const START: Duration = Duration::from_secs(10);

/// After this many programs in a row that failed without a figure a contender is left out.
const FRUITLESS: u32 = 3;

/// Holds a contender and the rows it still measures.
#[derive(Debug)]
pub(super) struct Entrant {
    pub(super) contender: Contender,
    rows: Vec<Row>,
    fruitless: u32,
}

/// Tells something that a reader of the table must know about a contender.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) contender: Contender,
    pub(super) text: String,
}

impl Entrant {
    pub(super) fn new(contender: Contender, rows: Vec<Row>) -> Self {
        Self {
            contender,
            rows,
            fruitless: 0,
        }
    }

    /// Measures all rows once. A row that a program did not come to the end of is not tried again by this contender,
    /// now or in later rounds; a new program goes on with the one after it.
    fn turn(
        &mut self,
        mut run: impl FnMut(&[Row], &mut dyn FnMut(Figure)) -> Result<(), String>,
        mut tell: impl FnMut(Figure),
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        let contender = self.contender;
        let mut note = |text| notes.push(Note { contender, text });
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
                Ok(()) => "it ended before its rows did".to_owned(),
                Err(reason) => reason,
            };
            if first == self.rows.len() {
                note(format!("after its last row: {reason}"));
                break;
            }
            note(format!("{} given up: {reason}", self.rows.remove(first)));
            self.fruitless = if done == 0 { self.fruitless + 1 } else { 0 };
            if self.fruitless == FRUITLESS && first < self.rows.len() {
                note("left out from here on: no figures".to_owned());
                self.rows.clear();
            }
        }
        notes
    }
}

/// Runs one round: every contender once, another one first in each round.
pub(super) fn round(
    number: u32,
    entrants: &mut [Entrant],
    setting: &Setting<'_>,
    book: &mut Book,
    mut show: impl FnMut(Contender, Option<&Figure>),
) -> Vec<Note> {
    let mut notes = Vec::new();
    let count = entrants.len();
    for place in 0..count {
        let entrant = &mut entrants[(place + number as usize) % count];
        let contender = entrant.contender;
        show(contender, None);
        let limit = START + Duration::from_secs(setting.limit.into());
        let run = |rows: &[Row], tell: &mut dyn FnMut(Figure)| {
            if contender == Contender::Gloo {
                empty(setting)?;
            }
            watch::run(contender.command(setting, rows), rows.len(), limit, tell)
        };
        notes.extend(entrant.turn(run, |figure| {
            book.record(number, contender, figure);
            show(contender, Some(&figure));
        }));
    }
    notes
}

/// Makes the folder in which the ranks of Gloo meet, without what the last ones left.
fn empty(setting: &Setting<'_>) -> Result<(), String> {
    let store = setting.programs.store();
    let made = remove(&store).and_then(|()| fs::create_dir_all(&store));
    made.map_err(|why| format!("{}: {why}", store.display()))
}

/// Removes a folder that need not be there.
pub(super) fn remove(folder: &std::path::Path) -> std::io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(why),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Op;
    use super::*;

    fn rows() -> Vec<Row> {
        [8, 16, 24, 32, 40]
            .map(|bytes| Row::new(Op::Allreduce, bytes))
            .into()
    }

    fn figure(row: Row) -> Figure {
        Figure {
            row,
            calls: 1,
            median: 1.0,
            p99: 1.0,
            span: None,
        }
    }

    /// Runs one turn of a program that fails at the rows for which `fails` is true; gives what was measured and noted.
    fn turn(entrant: &mut Entrant, fails: fn(Row) -> bool) -> (Vec<u64>, Vec<String>, usize) {
        let mut measured = Vec::new();
        let mut programs = 0;
        let notes = entrant.turn(
            |rows, tell| {
                programs += 1;
                for &row in rows {
                    if fails(row) {
                        return Err("it broke".to_owned());
                    }
                    tell(figure(row));
                }
                Ok(())
            },
            |figure| measured.push(figure.row.bytes),
        );
        let notes = notes.into_iter().map(|note| note.text).collect();
        (measured, notes, programs)
    }

    #[test]
    fn a_row_that_fails_costs_the_others_nothing_and_is_not_tried_again() {
        let mut entrant = Entrant::new(Contender::Mpich, rows());
        let (measured, notes, programs) = turn(&mut entrant, |row| row.bytes == 16);
        assert_eq!((measured, programs), (vec![8, 24, 32, 40], 2));
        assert_eq!(notes, ["allreduce 16 B given up: it broke"]);
        let (measured, notes, programs) = turn(&mut entrant, |row| row.bytes == 16);
        assert_eq!((measured, programs), (vec![8, 24, 32, 40], 1));
        assert!(notes.is_empty());
    }

    #[test]
    fn who_only_fails_is_left_out() {
        let mut entrant = Entrant::new(Contender::Mpich, rows());
        let (measured, notes, programs) = turn(&mut entrant, |_| true);
        assert_eq!((measured.len(), programs), (0, 3));
        assert!(notes[3].starts_with("left out"), "{notes:?}");
        assert_eq!(turn(&mut entrant, |_| false).2, 0);
    }

    #[test]
    fn ending_early_is_a_failure_and_so_is_ending_badly() {
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let early = entrant.turn(|_, _| Ok(()), |_| {});
        assert!(early[0].text.contains("ended before its rows"), "{early:?}");
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let notes = entrant.turn(
            |rows, tell| {
                for &row in rows {
                    tell(figure(row));
                }
                Err("exit status: 1".to_owned())
            },
            |_| {},
        );
        assert_eq!(notes[0].text, "after its last row: exit status: 1");
    }

    #[test]
    fn a_figure_of_another_row_does_not_count() {
        let mut entrant = Entrant::new(Contender::Ours, rows());
        let other = Row::new(Op::Barrier, 0);
        let mut measured = 0;
        let run = |_: &[Row], tell: &mut dyn FnMut(Figure)| {
            tell(figure(other));
            Ok(())
        };
        let notes = entrant.turn(run, |_| measured += 1);
        assert!(measured == 0 && !notes.is_empty());
    }
}
