//! All times of one backend with one number of ranks, and what follows from them.

use std::collections::BTreeMap;

use super::contender::Contender;
use super::figure::Figure;
use super::row::Row;

/// Names a time: that of a row's slowest rank, or its span.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct What {
    pub(super) row: Row,
    pub(super) span: bool,
}

impl From<Row> for What {
    fn from(row: Row) -> Self {
        Self { row, span: false }
    }
}

/// Holds microseconds by who took them for what in which round.
#[derive(Debug, Default)]
pub(super) struct Book {
    times: BTreeMap<(Contender, What), BTreeMap<u32, f64>>,
}

impl Book {
    pub(super) fn record(&mut self, round: u32, contender: Contender, figure: Figure) {
        let row = figure.row;
        let mut put = |span, time| {
            let times = self.times.entry((contender, What { row, span }));
            times.or_default().insert(round, time);
        };
        put(false, figure.median);
        if let Some(span) = figure.span {
            put(true, span);
        }
    }

    /// Says whether there is any time of a contender.
    pub(super) fn has(&self, contender: Contender) -> bool {
        self.times.keys().any(|(who, _)| *who == contender)
    }

    /// Gives the median over the rounds.
    pub(super) fn time(&self, contender: Contender, what: What) -> Option<f64> {
        median(self.rounds(contender, what).map(|(_, time)| time).collect())
    }

    /// Gives, for each round in which both are there, our time over the best time of `others` in that same round.
    pub(super) fn ratios(&self, of: What, others: &[(Contender, What)]) -> Vec<f64> {
        let ours = self.rounds(Contender::Ours, of);
        ours.filter_map(|(round, time)| {
            let others = others.iter().filter_map(|key| self.times.get(key));
            let best = others.filter_map(|times| times.get(&round)).copied();
            // A time of nothing is no time: the clock was too coarse.
            let best = best.filter(|&best| best > 0.0).reduce(f64::min)?;
            Some(time / best)
        })
        .collect()
    }

    /// Gives who of `others` has the lowest median over the rounds, and that.
    pub(super) fn best(&self, what: What, others: &[Contender]) -> Option<(Contender, f64)> {
        let times = others.iter();
        times
            .filter_map(|&other| Some((other, self.time(other, what)?)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn rounds(&self, contender: Contender, what: What) -> impl Iterator<Item = (u32, f64)> {
        let times = self.times.get(&(contender, what)).into_iter().flatten();
        times.map(|(&round, &time)| (round, time))
    }
}

/// Gives the middle, or the mean of the two in the middle; none of nothing.
pub(super) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let half = values.len() / 2;
    let upper = values.get(half).copied()?;
    if values.len().is_multiple_of(2) {
        Some(f64::midpoint(values[half - 1], upper))
    } else {
        Some(upper)
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::Op;
    use super::*;

    const ROW: Row = Row::new(Op::Broadcast, 8);

    fn book(times: &[(u32, Contender, f64)]) -> Book {
        let mut book = Book::default();
        for &(round, contender, median) in times {
            let figure = Figure {
                row: ROW,
                calls: 1,
                median,
                p99: median,
                span: Some(median * 2.0),
            };
            book.record(round, contender, figure);
        }
        book
    }

    fn same(a: &[f64], b: &[f64]) -> bool {
        a.iter()
            .map(|x| x.to_bits())
            .eq(b.iter().map(|x| x.to_bits()))
    }

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_ratio_is_to_the_best_of_its_own_round() {
        use Contender::{Mpich, OpenMpi, Ours};
        let book = book(&[
            (1, Ours, 4.0),
            (1, Mpich, 2.0),
            (1, OpenMpi, 8.0),
            (2, Ours, 4.0),
            (2, Mpich, 16.0),
            (2, OpenMpi, 8.0),
        ]);
        let peers = [Mpich, OpenMpi].map(|peer| (peer, ROW.into()));
        assert!(same(&book.ratios(ROW.into(), &peers), &[2.0, 0.5]));
        // By their medians over the rounds, 9 and 8.
        assert_eq!(
            book.best(ROW.into(), &[Mpich, OpenMpi]),
            Some((OpenMpi, 8.0))
        );
    }

    #[test]
    fn a_round_without_a_peer_or_without_us_has_no_ratio() {
        use Contender::{Gloo, Ours};
        let book = book(&[
            (1, Ours, 4.0),
            (2, Gloo, 1.0),
            (3, Ours, 4.0),
            (3, Gloo, 0.0),
        ]);
        assert!(book.ratios(ROW.into(), &[(Gloo, ROW.into())]).is_empty());
        assert_eq!(book.best(ROW.into(), &[Contender::Mpich]), None);
    }

    #[test]
    fn spans_are_times_of_their_own() {
        let book = book(&[(1, Contender::Ours, 4.0)]);
        let span = What {
            row: ROW,
            span: true,
        };
        assert_eq!(book.time(Contender::Ours, span), Some(8.0));
        assert_eq!(book.time(Contender::Ours, ROW.into()), Some(4.0));
    }
}
