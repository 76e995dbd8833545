//! All times of one backend with one number of ranks, and the comparisons that follow.

use std::collections::BTreeMap;

use super::contender::Contender;
use super::figure::Figure;
use super::row::Row;
use super::target::{Target, Verdict};

/// The times of one contender for one call, by round.
pub(super) type Rounds = BTreeMap<u32, f64>;

/// Microseconds by contender, call and round.
#[derive(Debug, Default)]
pub(super) struct Book {
    times: BTreeMap<(Contender, String), Rounds>,
}

/// One comparison.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) ranks: usize,
    pub(super) call: String,
    /// The median over the rounds.
    pub(super) ours: Option<f64>,
    /// The contender or call with the lowest median among those that ours is compared with, and that median.
    pub(super) other: Option<(String, f64)>,
    /// Our time over the best of the others, for each round in which both were measured.
    pub(super) ratios: Vec<f64>,
    pub(super) target: Target,
}

impl Comparison {
    /// Returns the verdict; `None` if nothing of ours was measured.
    pub(super) fn verdict(&self) -> Option<Verdict> {
        self.ours?;
        Some(self.target.judge(&self.ratios))
    }
}

impl Book {
    pub(super) fn record(&mut self, round: u32, who: Contender, call: String, time: f64) {
        let times = self.times.entry((who, call)).or_default();
        times.insert(round, time);
    }

    /// Records the time of a row, and its span as a separate call.
    pub(super) fn figure(&mut self, round: u32, who: Contender, figure: &Figure) {
        let row = figure.row;
        self.record(round, who, row.to_string(), figure.median);
        if let Some(time) = figure.span {
            self.record(round, who, span(row), time);
        }
    }

    /// Returns the times of ours for a call, by round.
    pub(super) fn ours(&self, call: &str) -> impl Iterator<Item = (u32, f64)> {
        let times = self.rounds(Contender::Ours, call);
        times
            .into_iter()
            .flatten()
            .map(|(&round, &time)| (round, time))
    }

    /// Returns the times of a contender for a call, by round.
    pub(super) fn rounds(&self, who: Contender, call: &str) -> Option<&Rounds> {
        self.times.get(&(who, call.to_owned()))
    }

    /// Returns the median time of a contender for a call.
    pub(super) fn median(&self, who: Contender, call: &str) -> Option<f64> {
        median(self.rounds(who, call)?.values().copied().collect())
    }

    /// Returns whether there is any time of a contender.
    pub(super) fn has(&self, contender: Contender) -> bool {
        self.times.keys().any(|(who, _)| *who == contender)
    }

    /// Compares a call of ours with others: the same call of others, or other calls of ours.
    pub(super) fn line(
        &self,
        ranks: usize,
        call: String,
        others: &[(Contender, String)],
        target: Target,
    ) -> Comparison {
        let others: Vec<(&str, &Rounds)> = others
            .iter()
            .filter_map(|key| {
                let name = match &key.0 {
                    Contender::Ours => &key.1,
                    other => other.name(),
                };
                Some((name, self.times.get(key)?))
            })
            .collect();
        let best = |round: &u32| {
            let times = others.iter().filter_map(|(_, times)| times.get(round));
            // A time of 0 is not valid: the clock was too coarse.
            times.copied().filter(|&time| time > 0.0).reduce(f64::min)
        };
        let middle = |times: &Rounds| median(times.values().copied().collect());
        let medians = others
            .iter()
            .filter_map(|&(name, times)| Some((name, middle(times)?)));
        let other = medians.min_by(|a, b| a.1.total_cmp(&b.1));
        let ours = self.times.get(&(Contender::Ours, call.clone()));
        let rounds = ours.into_iter().flatten();
        Comparison {
            ranks,
            call,
            ours: ours.and_then(middle),
            other: other.map(|(name, time)| (name.to_owned(), time)),
            ratios: rounds
                .filter_map(|(round, time)| Some(time / best(round)?))
                .collect(),
            target,
        }
    }
}

/// Names the span of a row.
pub(super) fn span(row: Row) -> String {
    format!("{row}, span")
}

/// Returns the median: the middle value, or the mean of the two in the middle; `None` without values.
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
    use Contender::Ours;

    use super::super::contender::Peer;
    use super::super::row::Op;
    use super::super::tests::figure;
    use super::*;

    const MPICH: Contender = Contender::Peer(Peer::Mpich);
    const OPEN_MPI: Contender = Contender::Peer(Peer::OpenMpi);
    const GLOO: Contender = Contender::Peer(Peer::Gloo);

    fn compared(times: &[(u32, Contender, f64)], call: &str, others: &[Contender]) -> Comparison {
        let mut book = Book::default();
        for &(round, contender, median) in times {
            let figure = figure(Row::new(Op::Broadcast, 8), median);
            book.figure(round, contender, &figure);
        }
        let others: Vec<_> = others
            .iter()
            .map(|&other| (other, call.to_owned()))
            .collect();
        book.line(2, call.to_owned(), &others, Target::Open)
    }

    fn bits(ratios: &[f64]) -> Vec<u64> {
        ratios.iter().map(|ratio| ratio.to_bits()).collect()
    }

    #[test]
    fn medians_of_odd_even_and_nothing() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(Vec::new()), None);
    }

    #[test]
    fn a_ratio_is_to_the_best_of_its_own_round() {
        let times = [
            (1, Ours, 4.0),
            (1, MPICH, 2.0),
            (1, OPEN_MPI, 8.0),
            (2, Ours, 4.0),
            (2, MPICH, 16.0),
            (2, OPEN_MPI, 8.0),
        ];
        let line = compared(&times, "broadcast 8 B", &[MPICH, OPEN_MPI]);
        assert_eq!(bits(&line.ratios), bits(&[2.0, 0.5]));
        // By their medians over the rounds, 9 and 8.
        assert_eq!(line.other, Some(("openmpi".to_owned(), 8.0)));
    }

    #[test]
    fn a_round_without_a_peer_or_without_us_has_no_ratio() {
        let times = [
            (1, Ours, 4.0),
            (2, GLOO, 1.0),
            (3, Ours, 4.0),
            (3, GLOO, 0.0),
        ];
        let line = compared(&times, "broadcast 8 B", &[GLOO]);
        assert!(line.ratios.is_empty() && line.other.is_some());
        assert_eq!(compared(&times, "broadcast 8 B", &[MPICH]).other, None);
    }

    #[test]
    fn spans_are_times_of_their_own() {
        let ours = |call| compared(&[(1, Ours, 4.0)], call, &[]).ours;
        assert_eq!(ours("broadcast 8 B, span"), Some(12.0));
        assert_eq!(ours("broadcast 8 B"), Some(4.0));
    }
}
