//! The lines of the tables: which call is compared with which.

use super::Backend;
use super::book::{Book, Comparison, span};
use super::contender::{Contender, Setting};
use super::contest::Results;
use super::row::{Op, Row};
use super::start_up;
use super::target::{self, AGAINST, Measure, Target};

/// Lists the rows for comparisons among our own calls.
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
    let mut rows: Vec<Row> = consistency(backend)
        .into_iter()
        .flat_map(|(a, b, _)| [a, b])
        .collect();
    rows.extend(copies);
    rows.sort_unstable();
    rows.dedup();
    // Fewer bytes than ranks would gather nothing.
    rows.retain(|row| !compared.contains(row) && (row.op != Op::Allgatherv || row.bytes >= ranks));
    rows
}

/// Lists limits between calls of one backend: the first takes at most this many times as long as the second.
fn consistency(backend: Backend) -> Vec<(Row, Row, f64)> {
    let barrier = Row::new(Op::Barrier, 0);
    let number = Row::new(Op::Allreduce, 8);
    let mut pairs = vec![(barrier, number, 1.0), (number, barrier, 2.0)];
    pairs.extend([8, 64 << 10, 20_000_000].map(|bytes| {
        // Both back to back: otherwise the comparison would include the barrier before each call.
        let rows = [Op::Broadcasts, Op::Allgatherv].map(|op| Row::new(op, bytes));
        (rows[0], rows[1], 1.0)
    }));
    pairs.push((EXCHANGE_READ, Row::new(Op::AllgathervRead, LARGEST), 1.0));
    if backend == Backend::Shm {
        // An exchange moves no data, whatever the size.
        pairs.push((Row::new(Op::Exchange, LARGEST), barrier, 1.5));
    }
    pairs
}

/// The name of the time limit of a start.
const LIMIT: &str = "limit";

/// The largest call of the solver that this library was made for.
const LARGEST: usize = 206_000_000;

/// The call on a gathered region that replaces an allgatherv whose result every rank reads.
pub(super) const EXCHANGE_READ: Row = Row::new(Op::ExchangeRead, LARGEST);

impl Results {
    /// Compares with the best peer of each round, or with the other build.
    pub(super) fn with_peers(&self, cores: usize) -> Vec<Comparison> {
        let Setting { backend, ranks, .. } = self.contest.setting;
        let mut lines = Vec::new();
        for &row in &self.contest.compared {
            let mut calls = vec![(row.to_string(), Measure::Slowest)];
            if row.op == Op::Broadcast {
                // The one that counts comes first.
                calls.insert(0, (span(row), Measure::Span));
            }
            lines.extend(calls.into_iter().map(|(call, measure)| {
                let target = if self.contest.peers == [Contender::Other] {
                    AGAINST
                } else {
                    target::against_peers(backend, cores, ranks, (row, measure))
                };
                let peers = self.contest.peers.iter();
                let peers: Vec<_> = peers.map(|&peer| (peer, call.clone())).collect();
                self.book.line(ranks, call, &peers, target)
            }));
        }
        if self.contest.extra.contains(&EXCHANGE_READ) {
            let gathered = Row::new(Op::AllgathervRead, LARGEST);
            let peers = self.contest.peers.iter();
            let peers: Vec<_> = peers.map(|&peer| (peer, gathered.to_string())).collect();
            let measured = (gathered, Measure::Slowest);
            let target = target::against_peers(backend, cores, ranks, measured);
            lines.push(
                self.book
                    .line(ranks, EXCHANGE_READ.to_string(), &peers, target),
            );
        }
        lines
    }

    /// Compares the calls with each other, and large ones with plain copies.
    pub(super) fn with_itself(&self, cores: usize) -> Vec<Comparison> {
        let Setting { backend, ranks, .. } = self.contest.setting;
        let mut pairs = consistency(backend);
        for &row in &self.contest.compared {
            let copy = Row::new(Op::Copy, row.bytes);
            let most = target::against_copies(backend, cores, ranks, row);
            pairs.extend(most.map(|most| (row, copy, most)));
        }
        let measured = self.contest.all_rows();
        pairs.retain(|(a, b, _)| measured.contains(a) && measured.contains(b));
        let lines = pairs.into_iter();
        let lines = lines.map(|(a, b, most)| self.with_own(a, b, most));
        lines.chain(self.start()).collect()
    }

    /// Compares the start with the time that it may take.
    fn start(&self) -> Option<Comparison> {
        let (ranks, most) = target::START_UP;
        let call = start_up::ROW.to_string();
        let times: Vec<_> = self.book.ours(&call).collect();
        if self.contest.setting.ranks != ranks || times.is_empty() {
            return None;
        }
        let mut book = Book::default();
        for (round, time) in times {
            book.record(round, Contender::Ours, call.clone(), time);
            book.record(round, Contender::Ours, LIMIT.to_owned(), most);
        }
        let limit = [(Contender::Ours, LIMIT.to_owned())];
        Some(book.line(ranks, call, &limit, Target::AtMost(1.0)))
    }

    /// Compares each size with its half.
    pub(super) fn steps(&self) -> Vec<Comparison> {
        let sizes = self.contest.compared.windows(2);
        let sizes = sizes.filter(|pair| pair[0].op == pair[1].op);
        sizes
            .map(|pair| self.with_own(pair[1], pair[0], STEP))
            .collect()
    }

    fn with_own(&self, row: Row, other: Row, most: f64) -> Comparison {
        let ranks = self.contest.setting.ranks;
        let other = (Contender::Ours, other.to_string());
        self.book
            .line(ranks, row.to_string(), &[other], Target::AtMost(most))
    }
}

/// Twice the bytes may take at most this many times as long: twice, plus a quarter of that because caches become too small.
const STEP: f64 = 2.5;

/// Lists the sizes around those at which a backend switches algorithms.
pub(super) fn sweep() -> Vec<Row> {
    let ops = [Op::Allreduce, Op::Broadcasts, Op::Allgatherv].into_iter();
    ops.flat_map(|op| (15..=22).map(move |power| Row::new(op, 1 << power)))
        .collect()
}

/// Lists the rows for numbers of ranks for which a machine has no memory with large buffers.
pub(super) fn many_ranks() -> Vec<Row> {
    let mut rows = Row::usual();
    rows.retain(|row| row.bytes <= MEBIBYTE);
    rows.extend([Op::Broadcast, Op::Allgatherv].map(|op| Row::new(op, MEBIBYTE)));
    rows.sort_unstable();
    rows
}

/// The largest call of many ranks.
pub(super) const MEBIBYTE: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::super::contender::Peer;
    use super::super::plan::Contest;
    use super::super::target::Verdict;
    use super::super::tests::{figure, setting};
    use super::*;

    const BARRIER: Row = Row::new(Op::Barrier, 0);

    fn results(backend: Backend, compared: Vec<Row>, times: &[(Contender, Row, f64)]) -> Results {
        let mut book = Book::default();
        for round in 0..9 {
            for &(contender, row, median) in times {
                book.figure(round, contender, &figure(row, median));
            }
        }
        let contest = Contest {
            setting: setting(backend, 2, false),
            peers: vec![Contender::Peer(Peer::Mpich), Contender::Peer(Peer::OpenMpi)],
            compared,
            extra: vec![Row::new(Op::Allreduce, 8)],
            left_out: Vec::new(),
        };
        Results {
            contest,
            book,
            good: true,
        }
    }

    fn verdicts(lines: &[Comparison]) -> Vec<Option<Verdict>> {
        lines.iter().map(Comparison::verdict).collect()
    }

    #[test]
    fn a_row_is_compared_with_its_best_peer_and_a_broadcast_counts_by_its_span() {
        let row = Row::new(Op::Broadcast, 8);
        let times = [
            (Contender::Ours, row, 3.0),
            (Contender::Peer(Peer::Mpich), row, 2.0),
            (Contender::Peer(Peer::OpenMpi), row, 4.0),
        ];
        let lines = results(Backend::Shm, vec![row], &times).with_peers(2);
        let calls: Vec<_> = lines.iter().map(|line| line.call.as_str()).collect();
        assert_eq!(calls, ["broadcast 8 B, span", "broadcast 8 B"]);
        assert_eq!(lines[0].other, Some(("mpich".to_owned(), 6.0)));
        assert_eq!(lines[1].other, Some(("mpich".to_owned(), 2.0)));
        let expected = [Verdict::Misses, Verdict::BySpan].map(Some);
        assert_eq!(verdicts(&lines), expected);
    }

    #[test]
    fn an_exchange_is_judged_by_the_barrier_of_its_world() {
        let exchange = Row::new(Op::Exchange, LARGEST);
        let judged = |ours, expected| {
            let times = [
                (Contender::Ours, BARRIER, 10.0),
                (Contender::Ours, exchange, ours),
            ];
            let mut results = results(Backend::Shm, vec![BARRIER], &times);
            results.contest.extra = vec![exchange];
            let lines = results.with_itself(2);
            assert_eq!(verdicts(&lines), [Some(expected)], "{ours}");
            assert_eq!(lines[0].other, Some(("barrier".to_owned(), 10.0)));
        };
        judged(15.0, Verdict::Holds);
        judged(16.0, Verdict::Misses);
    }

    #[test]
    fn the_start_of_many_ranks_has_half_a_second() {
        let started = |ranks, time| {
            let times = [(Contender::Ours, start_up::ROW, time)];
            let mut results = results(Backend::Shm, vec![start_up::ROW], &times);
            results.contest.setting = setting(Backend::Shm, ranks, true);
            verdicts(&results.with_itself(2))
        };
        assert_eq!(started(64, 490_000.0), [Some(Verdict::Holds)]);
        assert_eq!(started(64, 600_000.0), [Some(Verdict::Misses)]);
        assert_eq!(started(32, 600_000.0), []);
    }

    #[test]
    fn another_build_is_held_to_the_same_speed_whatever_peers_are_held_to() {
        let compared = |ours, expected| {
            let times = [
                (Contender::Ours, BARRIER, ours),
                (Contender::Other, BARRIER, 100.0),
            ];
            let mut results = results(Backend::Tcp, vec![BARRIER], &times);
            results.contest.peers = vec![Contender::Other];
            assert_eq!(verdicts(&results.with_peers(2)), [Some(expected)], "{ours}");
        };
        compared(102.0, Verdict::Holds);
        compared(104.0, Verdict::Misses);
    }

    #[test]
    fn who_has_no_peer_beats_nobody_and_who_has_no_time_has_no_verdict() {
        let of = |contender| results(Backend::Tcp, vec![BARRIER], &[(contender, BARRIER, 1.0)]);
        let alone = of(Contender::Ours).with_peers(2);
        assert_eq!(verdicts(&alone), [Some(Verdict::NoPeer)]);
        assert_eq!(
            verdicts(&of(Contender::Peer(Peer::Mpich)).with_peers(2)),
            [None]
        );
    }

    #[test]
    fn calls_of_one_backend_are_held_against_each_other() {
        let number = Row::new(Op::Allreduce, 8);
        let times = [
            (Contender::Ours, BARRIER, 1.0),
            (Contender::Ours, number, 3.0),
        ];
        let lines = results(Backend::Shm, vec![BARRIER], &times).with_itself(2);
        let expected = [Verdict::Holds, Verdict::Misses].map(Some);
        assert_eq!(verdicts(&lines), expected);
    }

    #[test]
    fn copies_are_measured_where_memory_is_the_limit() {
        let copies = |backend, ranks| {
            let rows = extra_rows(backend, 2, ranks, &Row::usual());
            rows.iter().filter(|row| row.op == Op::Copy).count()
        };
        assert_eq!(copies(Backend::Shm, 2), 4);
        assert_eq!(copies(Backend::Shm, 4), 0);
        assert_eq!(copies(Backend::Tcp, 2), 0);
    }

    #[test]
    fn nothing_is_measured_twice() {
        let compared = Row::usual();
        let extra = extra_rows(Backend::Shm, 2, 2, &compared);
        assert!(extra.iter().all(|row| !compared.contains(row)));
        assert!(extra.contains(&Row::new(Op::Allgatherv, 20_000_000)));
    }

    #[test]
    fn a_step_is_more_than_twice_the_time_for_twice_the_bytes() {
        let rows = sweep();
        let ends = (rows.len(), rows[0].bytes, rows[7].bytes);
        assert_eq!(ends, (24, 32 << 10, 4 << 20));
        let times = [1.0, 2.0, 6.0].into_iter().zip(&rows);
        let times: Vec<_> = times
            .map(|(time, &row)| (Contender::Ours, row, time))
            .collect();
        let lines = results(Backend::Tcp, rows[..3].to_vec(), &times).steps();
        let expected = [Verdict::Holds, Verdict::Misses].map(Some);
        assert_eq!(verdicts(&lines), expected);
        assert_eq!(results(Backend::Tcp, rows, &[]).steps().len(), 21);
    }
}
