//! The speedup of the example solver with more ranks, and the memory of a shared case.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;

use super::book::Book;
use super::build::{Checkout, SOLVER};
use super::contender::Contender;
use super::progress;
use super::record::Record;
use super::target::Target;
use super::{Backend, Bench, Table};
use crate::process::command;

/// More than 20 seconds on one rank of an ordinary machine.
const CASE: &str =
    "--stages 48 --plants 8 --openings 20 --scenarios 32 --tolerance 0 --iterations 16";

/// A case of 160 MB, to find out how many copies of it are in memory.
const LARGE: &str = "--stages 100 --plants 100 --openings 2000 --iterations 0";

/// The numbers of ranks that load the large case.
const MEMORY_RANKS: [usize; 3] = [1, 2, 4];

/// The fraction of the time of one rank that more ranks may take: two should be 1.6 times as fast.
const TIME: Target = Target::AtMost(0.625);

/// The results by number of ranks: seconds of [`SOLVED`] and [`ALONE`], megabytes of each backend.
pub(super) type Books = BTreeMap<usize, Book>;

/// The calls of the book that hold seconds: all ranks, and one rank in the same round.
pub(super) const SOLVED: &str = "sddp";
pub(super) const ALONE: &str = "1 rank";

/// Runs the solver on one rank and on more, in turns, and then the large case on both backends.
pub(super) fn measure(bench: &Bench, record: &mut Record) -> Result<Books, String> {
    let checkout = Checkout::ours(!bench.unoptimised)?;
    checkout.build(Backend::Shm, SOLVER)?;
    let programs = checkout.folder(Backend::Shm);
    let ranks = bench.ranks_or(&[2]);
    let runs = 1 + ranks.len() + 2 * MEMORY_RANKS.len();
    let progress = progress::bar(runs * bench.rounds as usize);
    let mut books = Books::new();
    for round in 1..=bench.rounds {
        let mut solve = |backend: Backend, ranks: usize, case: &str| {
            let place = format!("{}, {ranks} ranks, round {round}", backend.name());
            progress.set_message(format!("{place} of {}, sddp", bench.rounds));
            let solved = Solved::run(&programs, backend, ranks, case)?;
            progress.inc(1);
            let Solved { seconds, bytes, .. } = solved;
            let values = format!("sddp,{bytes},1,{:.0},,", seconds * 1e6);
            record.add((backend, ranks, round), "ours", &values)?;
            Ok::<_, String>(solved)
        };
        let mut keep = |ranks, call: &str, value| {
            let book = books.entry(ranks).or_default();
            book.record(round, Contender::Ours, call.to_owned(), value);
        };
        let alone = solve(Backend::Shm, 1, CASE)?;
        for &ranks in &ranks {
            let many = solve(Backend::Shm, ranks, CASE)?;
            if many.checksum != alone.checksum {
                return Err("the policies differ: the ranks did not solve the same case".to_owned());
            }
            keep(ranks, SOLVED, many.seconds);
            keep(ranks, ALONE, alone.seconds);
        }
        for ranks in MEMORY_RANKS {
            for backend in [Backend::Shm, Backend::Tcp] {
                let solved = solve(backend, ranks, LARGE)?;
                keep(ranks, backend.name(), solved.bytes / 1e6);
            }
        }
    }
    Ok(books)
}

/// Compares one rank with more, and the memory of one backend with that of the other.
pub(super) fn tables(books: &Books) -> Vec<Table> {
    let lines = |call: &str, other: &str, target| {
        let books = books.iter();
        let books = books.filter(|(_, book)| book.rounds(Contender::Ours, call).is_some());
        let other = [(Contender::Ours, other.to_owned())];
        let line =
            |(&ranks, book): (&usize, &Book)| book.line(ranks, call.to_owned(), &other, target);
        books.map(line).collect()
    };
    let table = |title: &str, unit, lines| Table {
        title: title.to_owned(),
        other: "to",
        unit,
        lines,
    };
    vec![
        table(
            "sddp over shm: the time of one rank and of more",
            "s",
            lines(SOLVED, ALONE, TIME),
        ),
        table(
            "sddp, a case of 160 MB: the memory of all ranks, shared pages divided",
            "MB",
            lines("shm", "tcp", Target::Open),
        ),
    ]
}

/// The figures that a run of the solver prints.
#[derive(Debug, PartialEq)]
struct Solved {
    seconds: f64,
    bytes: f64,
    checksum: String,
}

impl Solved {
    fn run(programs: &Path, backend: Backend, ranks: usize, case: &str) -> Result<Self, String> {
        let ranks = ranks.to_string();
        let flags = [
            "-n",
            &ranks,
            "--backend",
            backend.name(),
            "--timeout",
            "600",
            "--",
        ];
        let mut run = command(&programs.join("comm-run").to_string_lossy(), &flags);
        run.arg(programs.join("sddp"));
        let output = run
            .args(case.split_whitespace())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|why| format!("comm-run cannot start: {why}"))?;
        if !output.status.success() {
            return Err(format!("the solver failed: {}", output.status));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Self::read(&text).ok_or_else(|| format!("the solver prints something else:\n{text}"))
    }

    fn read(text: &str) -> Option<Self> {
        let find = |before: &str, after: &str| {
            let lines = text.lines().filter_map(|line| line.strip_prefix("[0] "));
            let mut found = lines.filter_map(|line| {
                let (_, rest) = line.split_once(before)?;
                rest.strip_suffix(after)
            });
            found.next()
        };
        Some(Self {
            seconds: find("; ", " s")?.parse().ok()?,
            bytes: 1e6 * find("memory of all ranks: ", " MB")?.parse::<f64>().ok()?,
            checksum: find("policy checksum ", "")?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::target::Verdict;
    use super::*;

    #[test]
    fn figures_are_read_from_what_rank_0_says() {
        let text = "[0] 2 ranks on shm, 1 thread each; shared regions of 0.1 MB\n\
                    [0] 40 iterations, as many as asked for; 3.87 s\n\
                    [1] 40 iterations, as many as asked for; 9.99 s\n\
                    [0] memory of all ranks: 12.5 MB\n[0] policy checksum 12ab";
        let solved = Solved {
            seconds: 3.87,
            bytes: 12_500_000.0,
            checksum: "12ab".to_owned(),
        };
        assert_eq!(Solved::read(text), Some(solved));
        assert_eq!(Solved::read("[0] policy checksum 12ab"), None);
    }

    #[test]
    fn a_second_rank_must_bring_something() {
        assert_eq!(TIME.judge(&[1.0 / 1.6; 9]), Verdict::Holds);
        assert_eq!(TIME.judge(&[1.0 / 1.5; 9]), Verdict::Misses);
    }
}
