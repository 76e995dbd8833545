//! The figures of the solver: from its books to lines of a sheet, and back.

use super::super::Backend;
use super::super::book::Book;
use super::super::contender::Contender;
use super::super::solver::{ALONE, Books, SOLVED};
use super::sheet::{Line, Sheet};

/// The calls of the books, with the backend and the figure of each.
const CALLS: [(&str, Backend, &str); 4] = [
    (SOLVED, Backend::Shm, "seconds"),
    (ALONE, Backend::Shm, "seconds"),
    ("shm", Backend::Shm, "megabytes"),
    ("tcp", Backend::Tcp, "megabytes"),
];

/// Lists all figures of the books.
pub(super) fn lines(books: &Books) -> Vec<Line> {
    let calls = |(&ranks, book): (&usize, &Book)| {
        let line = |(call, backend, figure): (&str, Backend, &str)| {
            Some(Line {
                backend: backend.name().to_owned(),
                ranks,
                contender: Contender::Ours.name().to_owned(),
                call: call.to_owned(),
                figure: figure.to_owned(),
                rounds: book.rounds(Contender::Ours, call)?.clone(),
            })
        };
        CALLS.into_iter().filter_map(line).collect::<Vec<_>>()
    };
    books.iter().flat_map(calls).collect()
}

/// Rebuilds the books.
pub(super) fn books(sheet: &Sheet) -> Books {
    let mut books = Books::new();
    for line in &sheet.lines {
        let book = books.entry(line.ranks).or_default();
        for (&round, &value) in &line.rounds {
            book.record(round, Contender::Ours, line.call.clone(), value);
        }
    }
    books
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn books_are_the_same_after_they_were_written_and_read() {
        let mut before = Books::new();
        for (ranks, call, value) in [
            (2, SOLVED, 7.5),
            (2, ALONE, 14.0),
            (2, "shm", 170.0),
            (4, "tcp", 700.0),
        ] {
            let book = before.entry(ranks).or_default();
            book.record(1, Contender::Ours, call.to_owned(), value);
        }
        let sheet = Sheet {
            lines: lines(&before),
            ..Sheet::default()
        };
        assert_eq!(sheet.lines.len(), 4);
        let after = books(&Sheet::parse(&sheet.text().unwrap()).unwrap());
        assert_eq!(lines(&after), sheet.lines);
    }
}
