//! The lines of the tables: what is compared with what.

use super::Backend;
use super::book::{Book, What};
use super::contender::Contender;
use super::row::{Op, Row};
use super::target::{self, Verdict};

/// Holds all that was measured with one number of ranks.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) ranks: usize,
    pub(super) rows: Vec<Row>,
    pub(super) peers: Vec<Contender>,
    pub(super) book: Book,
}

/// Holds one comparison.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) ranks: usize,
    pub(super) call: String,
    pub(super) ours: Option<f64>,
    /// Who or what ours is compared with, and the time of that.
    pub(super) other: Option<(String, f64)>,
    pub(super) ratios: Vec<f64>,
    pub(super) target: f64,
}

impl Line {
    /// Says what came of it; none if there is nothing of ours to judge.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.ours?;
        Some(target::judge(&self.ratios, self.target))
    }
}

/// Lists the rows that are measured for comparisons of ours with ours.
pub(super) fn extra_rows(
    backend: Backend,
    cores: usize,
    ranks: usize,
    compared: &[Row],
) -> Vec<Row> {
    let copies = compared.iter().filter_map(|&row| {
        target::against_copies(backend, cores, ranks, row)?;
        Some(Row::new(Op::Copy, row.bytes))
    });
    let mut rows: Vec<Row> = consistency()
        .into_iter()
        .flat_map(|(a, b, _)| [a, b])
        .collect();
    rows.extend(copies);
    rows.sort_unstable();
    rows.dedup();
    // Fewer bytes than ranks would gather nothing at all.
    let least = u64::try_from(ranks).unwrap_or(u64::MAX);
    rows.retain(|row| !compared.contains(row) && (row.op != Op::Allgatherv || row.bytes >= least));
    rows
}

/// Lists what the calls of one backend owe each other: the first takes at most so many times the second.
fn consistency() -> Vec<(Row, Row, f64)> {
    let barrier = Row::new(Op::Barrier, 0);
    let number = Row::new(Op::Allreduce, 8);
    let mut pairs = vec![(barrier, number, 1.0), (number, barrier, 2.0)];
    pairs.extend([8, 64 << 10, 20_000_000].map(|bytes| {
        // Both back to back: otherwise not the calls would be compared, but what goes before them.
        let rows = [Op::Broadcasts, Op::Allgatherv].map(|op| Row::new(op, bytes));
        (rows[0], rows[1], 1.0)
    }));
    pairs
}

impl Section {
    /// Compares with the best peer of each round.
    pub(super) fn with_peers(&self, backend: Backend, cores: usize) -> Vec<Line> {
        let mut lines = Vec::new();
        for &row in &self.rows {
            let target = target::against_peers(backend, cores, self.ranks, row);
            lines.push(self.with_best(row.into(), target));
            // How late the last rank has it matters where the time itself is short.
            if row.op == Op::Broadcast && row.bytes <= 1 << 10 {
                lines.push(self.with_best(What { row, span: true }, target));
            }
        }
        lines
    }

    fn with_best(&self, what: What, target: f64) -> Line {
        let peers: Vec<_> = self.peers.iter().map(|&peer| (peer, what)).collect();
        let best = self.book.best(what, &self.peers);
        Line {
            ranks: self.ranks,
            call: format!("{}{}", what.row, if what.span { ", span" } else { "" }),
            ours: self.book.time(Contender::Ours, what),
            other: best.map(|(peer, time)| (peer.name().to_owned(), time)),
            ratios: self.book.ratios(what, &peers),
            target,
        }
    }

    /// Compares the calls with each other, and large ones with plain copies.
    pub(super) fn with_itself(
        &self,
        backend: Backend,
        cores: usize,
        measured: &[Row],
    ) -> Vec<Line> {
        let mut pairs = consistency();
        for &row in &self.rows {
            let copy = Row::new(Op::Copy, row.bytes);
            let most = target::against_copies(backend, cores, self.ranks, row);
            pairs.extend(most.map(|most| (row, copy, most)));
        }
        pairs.retain(|(a, b, _)| measured.contains(a) && measured.contains(b));
        let lines = pairs.into_iter();
        lines
            .map(|(a, b, most)| self.with_own(a, b, most))
            .collect()
    }

    /// Compares each size with its half.
    pub(super) fn steps(&self) -> Vec<Line> {
        let sizes = self.rows.windows(2).filter(|pair| pair[0].op == pair[1].op);
        sizes
            .map(|pair| self.with_own(pair[1], pair[0], STEP))
            .collect()
    }

    fn with_own(&self, row: Row, other: Row, target: f64) -> Line {
        let time = self.book.time(Contender::Ours, other.into());
        Line {
            ranks: self.ranks,
            call: row.to_string(),
            ours: self.book.time(Contender::Ours, row.into()),
            other: time.map(|time| (other.to_string(), time)),
            ratios: self
                .book
                .ratios(row.into(), &[(Contender::Ours, other.into())]),
            target,
        }
    }
}

/// Twice the bytes take at most this many times as long: twice, and a quarter of that for caches that become too small.
const STEP: f64 = 2.5;

/// Lists the sizes around the places where a backend changes its ways.
pub(super) fn sweep() -> Vec<Row> {
    let ops = [Op::Allreduce, Op::Broadcasts, Op::Allgatherv].into_iter();
    ops.flat_map(|op| (15..=22).map(move |power| Row::new(op, 1 << power)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::figure::Figure;
    use super::*;

    fn section(rows: Vec<Row>, times: &[(Contender, Row, f64)]) -> Section {
        let mut book = Book::default();
        for round in 0..9 {
            for &(contender, row, median) in times {
                let span = (row.op == Op::Broadcast).then_some(median * 3.0);
                let figure = Figure {
                    row,
                    calls: 1,
                    median,
                    p99: median,
                    span,
                };
                book.record(round, contender, figure);
            }
        }
        Section {
            ranks: 2,
            rows,
            peers: vec![Contender::Mpich, Contender::OpenMpi],
            book,
        }
    }

    #[test]
    fn a_row_is_compared_with_its_best_peer_and_a_short_broadcast_by_its_span_too() {
        let row = Row::new(Op::Broadcast, 8);
        let times = [
            (Contender::Ours, row, 3.0),
            (Contender::Mpich, row, 2.0),
            (Contender::OpenMpi, row, 4.0),
        ];
        let lines = section(vec![row], &times).with_peers(Backend::Shm, 2);
        let calls: Vec<_> = lines.iter().map(|line| line.call.as_str()).collect();
        assert_eq!(calls, ["broadcast 8 B", "broadcast 8 B, span"]);
        assert_eq!(lines[0].other, Some(("mpich".to_owned(), 2.0)));
        assert_eq!(lines[1].other, Some(("mpich".to_owned(), 6.0)));
        assert_eq!(lines[0].verdict(), Some(Verdict::Misses));
    }

    #[test]
    fn who_has_no_peer_beats_nobody_and_who_has_no_time_has_no_verdict() {
        let row = Row::new(Op::Barrier, 0);
        let alone = section(vec![row], &[(Contender::Ours, row, 1.0)]);
        let lines = alone.with_peers(Backend::Tcp, 2);
        assert_eq!(lines[0].verdict(), Some(Verdict::NoPeer));
        let without = section(vec![row], &[(Contender::Mpich, row, 1.0)]);
        assert_eq!(without.with_peers(Backend::Tcp, 2)[0].verdict(), None);
    }

    #[test]
    fn calls_of_one_backend_are_held_against_each_other() {
        let (barrier, number) = (Row::new(Op::Barrier, 0), Row::new(Op::Allreduce, 8));
        let times = [
            (Contender::Ours, barrier, 1.0),
            (Contender::Ours, number, 3.0),
        ];
        let section = section(vec![barrier], &times);
        let lines = section.with_itself(Backend::Shm, 2, &[barrier, number]);
        let verdicts: Vec<_> = lines.iter().filter_map(Line::verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::Misses]);
    }

    #[test]
    fn copies_are_measured_where_memory_is_the_limit() {
        let compared = Row::compared();
        let copies = |backend, ranks| {
            let rows = extra_rows(backend, 2, ranks, &compared);
            rows.iter().filter(|row| row.op == Op::Copy).count()
        };
        assert_eq!(copies(Backend::Shm, 2), 4);
        assert_eq!(copies(Backend::Shm, 4), 0);
        assert_eq!(copies(Backend::Tcp, 2), 0);
    }

    #[test]
    fn nothing_is_measured_twice() {
        let compared = Row::compared();
        let extra = extra_rows(Backend::Shm, 2, 2, &compared);
        assert!(extra.iter().all(|row| !compared.contains(row)));
        assert!(extra.contains(&Row::new(Op::Allgatherv, 20_000_000)));
    }

    #[test]
    fn a_step_is_more_than_twice_the_time_for_twice_the_bytes() {
        let rows = sweep();
        assert_eq!(
            (rows.len(), rows[0].bytes, rows[7].bytes),
            (24, 32 << 10, 4 << 20)
        );
        let times: Vec<_> = [1.0, 2.0, 6.0].into_iter().zip(&rows).collect();
        let times: Vec<_> = times
            .iter()
            .map(|(time, row)| (Contender::Ours, **row, *time))
            .collect();
        let lines = section(rows[..3].to_vec(), &times).steps();
        let verdicts: Vec<_> = lines.iter().filter_map(Line::verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::Misses]);
        assert_eq!(section(sweep(), &[]).steps().len(), 21);
    }
}
