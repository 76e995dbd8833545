//! The target of each row, and whether the row reaches it.

use std::fmt::{self, Display, Formatter};

use super::Backend;
use super::book::median;
use super::row::{Op, Row};

/// On a machine that also runs other programs, a median of fewer ratios means nothing.
pub(super) const ROUNDS: u32 = 9;

/// The factor by which a median may miss its target, because of the machine's noise.
pub(super) const NOISE: f64 = 1.05;

/// The probability below which chance does not explain how many ratios are above a limit.
const CHANCE: f64 = 0.025;

/// Up to this size a call is small: its time is that of synchronising the ranks, not of moving bytes.
pub(super) const SMALL: usize = 64 << 10;

/// From this size on a call over sockets is large.
const LARGE_TCP: usize = 3_200_000;

/// The limit of a ratio.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Target {
    /// There is no target.
    Open,
    /// There is no target, because the span of the same calls counts.
    BySpan,
    /// At most this, with some room for noise.
    AtMost(f64),
    /// At most this, unless chance explains the ratios above it.
    Chance(f64),
}

/// The largest fraction of another build's time that a build of ours may take.
pub(super) const AGAINST: Target = Target::Chance(1.03);

/// The time that was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Measure {
    /// The call of the slowest rank.
    Slowest,
    /// The time from the root's entry to the last return.
    Span,
}

/// Returns our target as a fraction of the best peer's time. It is at most 1.
pub(super) fn against_peers(
    backend: Backend,
    cores: usize,
    ranks: usize,
    (row, measure): (Row, Measure),
) -> Target {
    let most = match (backend, row.op) {
        (Backend::MpiMpich | Backend::MpiOpenMpi, _) => return Target::Open,
        (_, Op::Broadcast) if measure == Measure::Slowest => return Target::BySpan,
        (Backend::Tcp, _) if row.bytes >= LARGE_TCP => 0.8,
        (Backend::Tcp, _) | (_, Op::Broadcast | Op::StartUp) => 1.0,
        (Backend::Shm, _) if row.bytes > SMALL || ranks <= cores => 1.0,
        (Backend::Shm, Op::Barrier) if ranks < 4 * cores => 1.0,
        (Backend::Shm, _) if ranks < 4 * cores => 0.8,
        (Backend::Shm, _) => 0.5,
    };
    Target::AtMost(most)
}

/// The number of ranks and the microseconds within which they start, call a barrier and end.
pub(super) const START_UP: (usize, f64) = (64, 500_000.0);

/// Returns the target of a call as a multiple of the time of plain copies, if memory is the limit: for large calls in shared
/// memory with a processor for each rank.
pub(super) fn against_copies(
    backend: Backend,
    cores: usize,
    ranks: usize,
    row: Row,
) -> Option<f64> {
    let moves = matches!(row.op, Op::Broadcast | Op::Allgatherv);
    let meant = backend == Backend::Shm && ranks == cores && row.bytes >= 1 << 20 && moves;
    meant.then_some(1.4)
}

/// The verdict on a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Misses,
    /// The median is above the target, but chance explains that.
    Unclear,
    /// There is no target.
    Open,
    /// There is no target: the span counts.
    BySpan,
    /// Too few rounds for a verdict.
    TooFew(usize),
    /// Nothing to compare with: a missing peer does not count as beaten.
    NoPeer,
}

impl Target {
    /// Returns the limit itself.
    pub(super) const fn most(self) -> Option<f64> {
        match self {
            Self::Open | Self::BySpan => None,
            Self::AtMost(most) | Self::Chance(most) => Some(most),
        }
    }

    /// Judges the ratios of a row by their median.
    pub(super) fn judge(self, ratios: &[f64]) -> Verdict {
        let Some(ratio) = median(ratios.to_vec()) else {
            return Verdict::NoPeer;
        };
        let above = |most| ratios.iter().filter(|&&ratio| ratio > most).count();
        match self {
            Self::Open => Verdict::Open,
            Self::BySpan => Verdict::BySpan,
            _ if ratios.len() < ROUNDS as usize => Verdict::TooFew(ratios.len()),
            Self::AtMost(most) if ratio <= most * NOISE => Verdict::Holds,
            Self::Chance(most) if ratio <= most => Verdict::Holds,
            Self::Chance(most) if chance(above(most), ratios.len()) > CHANCE => Verdict::Unclear,
            Self::AtMost(_) | Self::Chance(_) => Verdict::Misses,
        }
    }
}

/// Returns the probability that at least `above` of `all` ratios are above their true median (the sign test).
fn chance(above: usize, all: usize) -> f64 {
    let number = |count: usize| u32::try_from(count).map_or(f64::INFINITY, f64::from);
    let mut term = 0.5_f64.powf(number(all));
    let mut sum = term;
    for below in 1..=all - above {
        term *= number(all - below + 1) / number(below);
        sum += term;
    }
    sum
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.most() {
            None => f.write_str("-"),
            Some(most) => write!(f, "{most}"),
        }
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("holds"),
            Self::Misses => f.write_str("**misses**"),
            Self::Unclear => f.write_str("above, within noise"),
            Self::Open => Ok(()),
            Self::BySpan => f.write_str("no target: the span counts"),
            Self::TooFew(1) => f.write_str("1 round: no verdict"),
            Self::TooFew(rounds) => write!(f, "{rounds} rounds: no verdict"),
            Self::NoPeer => f.write_str("no peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_with(backend: Backend, ranks: usize, target: f64) -> Vec<String> {
        let measure = |row: Row| match row.op {
            Op::Broadcast => Measure::Span,
            _ => Measure::Slowest,
        };
        let target = Target::AtMost(target);
        let rows = Row::usual().into_iter();
        rows.filter(|&row| against_peers(backend, 2, ranks, (row, measure(row))) == target)
            .map(|row| row.to_string())
            .collect()
    }

    #[test]
    fn with_a_processor_each_nobody_is_faster() {
        assert_eq!(rows_with(Backend::Shm, 2, 1.0).len(), 13);
        assert_eq!(rows_with(Backend::Shm, 1, 1.0).len(), 13);
    }

    #[test]
    fn small_calls_shine_where_ranks_share_processors() {
        let rows = |ranks, target| rows_with(Backend::Shm, ranks, target);
        let better = [
            "allreduce 32 B",
            "allreduce 8 KiB",
            "allgatherv 1 KiB",
            "allgatherv 64 KiB",
        ];
        for ranks in [3, 4, 7] {
            assert_eq!(rows(ranks, 1.0)[..2], ["barrier", "allreduce 1 MiB"]);
            assert_eq!(rows(ranks, 0.8), better);
            assert_eq!(rows(ranks, 1.0).len(), 9);
        }
        for ranks in [8, 64] {
            assert_eq!(rows(ranks, 0.5).len(), 5);
            assert_eq!(rows(ranks, 1.0).len(), 8);
        }
    }

    #[test]
    fn sockets_are_faster_from_3_2_megabytes_on() {
        for ranks in [2, 8] {
            let large = [
                "allreduce 16 MiB",
                "broadcast 20 MB",
                "allgatherv 3.2 MB",
                "allgatherv 64 MB",
                "allgatherv 206 MB",
                "allgatherv-read 206 MB",
            ];
            assert_eq!(rows_with(Backend::Tcp, ranks, 0.8), large);
            assert_eq!(rows_with(Backend::Tcp, ranks, 1.0).len(), 7);
        }
    }

    #[test]
    fn broadcasts_count_by_their_span_and_the_slowest_call_is_no_target() {
        let target = |backend, ranks, bytes, measure| {
            let row = Row::new(Op::Broadcast, bytes);
            against_peers(backend, 2, ranks, (row, measure))
        };
        for backend in [Backend::Shm, Backend::Tcp] {
            for ranks in [2, 4, 8] {
                let [slowest, span] = [Measure::Slowest, Measure::Span]
                    .map(|measure| target(backend, ranks, 8, measure));
                assert_eq!((slowest, span), (Target::BySpan, Target::AtMost(1.0)));
            }
        }
        let library = target(Backend::MpiMpich, 2, 8, Measure::Span);
        assert_eq!(library, Target::Open);
        assert_eq!(Target::BySpan.judge(&[9.0; 9]), Verdict::BySpan);
    }

    #[test]
    fn no_peer_may_be_faster_by_more_than_the_noise_anywhere() {
        let mut rows = Row::usual();
        rows.extend(super::super::compare::many_ranks());
        rows.push(Row::new(Op::StartUp, 0));
        for row in rows {
            for (backend, ranks) in [Backend::Shm, Backend::Tcp]
                .into_iter()
                .flat_map(|backend| [2, 4, 8, 16, 64].map(|ranks| (backend, ranks)))
            {
                let target = against_peers(backend, 2, ranks, (row, Measure::Span));
                assert_eq!(target.judge(&[1.06; 9]), Verdict::Misses, "{row}");
            }
        }
    }

    #[test]
    fn memory_is_the_limit_of_large_calls_with_a_processor_each() {
        let row = Row::new(Op::Allgatherv, 3_200_000);
        assert_eq!(against_copies(Backend::Shm, 2, 2, row), Some(1.4));
        assert_eq!(against_copies(Backend::Shm, 2, 4, row), None);
        assert_eq!(against_copies(Backend::Tcp, 2, 2, row), None);
        let sum = Row::new(Op::Allreduce, 16 << 20);
        assert_eq!(against_copies(Backend::Shm, 2, 2, sum), None);
    }

    #[test]
    fn the_median_decides_with_some_room_for_noise() {
        let nine = |ratio: f64| [0.1, 0.1, 0.1, 0.1, ratio, 9.0, 9.0, 9.0, 9.0];
        let judge = |ratio| Target::AtMost(0.8).judge(&nine(ratio));
        assert_eq!(judge(0.8), Verdict::Holds);
        assert_eq!(judge(0.84), Verdict::Holds);
        assert_eq!(judge(0.85), Verdict::Misses);
    }

    #[test]
    fn another_build_is_beaten_by_chance_unless_nearly_all_rounds_agree() {
        let slower = |rounds| {
            let mut ratios = [0.9; 9];
            ratios[..rounds].fill(1.2);
            AGAINST.judge(&ratios)
        };
        assert_eq!(slower(4), Verdict::Holds);
        assert_eq!(slower(7), Verdict::Unclear);
        assert_eq!(slower(8), Verdict::Misses);
        // 10 and 512 ways of 512.
        assert!((chance(8, 9) - 10.0 / 512.0).abs() < 1e-9);
        assert!((chance(0, 9) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn few_rounds_and_absent_peers_have_no_verdict() {
        assert_eq!(Target::AtMost(1.0).judge(&[0.1; 8]), Verdict::TooFew(8));
        assert_eq!(Target::AtMost(1.0).judge(&[]), Verdict::NoPeer);
        assert_eq!(Target::Open.judge(&[9.0; 9]), Verdict::Open);
    }
}
