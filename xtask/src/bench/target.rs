//! What each row should reach, and whether it does.

use std::fmt::{self, Display, Formatter};

use super::Backend;
use super::book::median;
use super::row::{Op, Row, SMALL};

/// A median of fewer ratios says nothing on a machine that does other things, too.
pub(super) const ROUNDS: u32 = 9;

/// What a median may miss its target by, for the noise of the machine.
const NOISE: f64 = 1.05;

/// From here on a call over sockets is large.
const LARGE_TCP: u64 = 3_200_000;

/// Gives the most that our time may be, as a part of the best peer's.
pub(super) fn against_peers(backend: Backend, cores: usize, ranks: usize, row: Row) -> f64 {
    match backend {
        Backend::Tcp if row.bytes >= LARGE_TCP => 0.8,
        Backend::Tcp => 1.0,
        Backend::Shm if row.bytes > SMALL || ranks <= cores => 1.0,
        Backend::Shm if ranks < 4 * cores => match row.op {
            Op::Barrier | Op::Broadcast | Op::Broadcasts => 1.1,
            Op::Allreduce | Op::Allgatherv | Op::Copy => 0.8,
        },
        Backend::Shm => match row.op {
            Op::Broadcast | Op::Broadcasts => 0.8,
            Op::Barrier | Op::Allreduce | Op::Allgatherv | Op::Copy => 0.5,
        },
    }
}

/// Gives what of a peer's row is a limit of memory itself: large calls in shared memory with a processor for each rank.
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

/// Says what came of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Holds,
    Misses,
    /// Too few rounds to say.
    TooFew(usize),
    /// Nothing to compare with. Whoever is not there is not beaten.
    NoPeer,
}

/// Judges the ratios of a row by their median.
pub(super) fn judge(ratios: &[f64], target: f64) -> Verdict {
    match median(ratios.to_vec()) {
        None => Verdict::NoPeer,
        Some(_) if ratios.len() < ROUNDS as usize => Verdict::TooFew(ratios.len()),
        Some(ratio) if ratio <= target * NOISE => Verdict::Holds,
        Some(_) => Verdict::Misses,
    }
}

impl Display for Verdict {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.write_str("holds"),
            Self::Misses => f.write_str("**misses**"),
            Self::TooFew(1) => f.write_str("1 round: no verdict"),
            Self::TooFew(rounds) => write!(f, "{rounds} rounds: no verdict"),
            Self::NoPeer => f.write_str("no peer"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(backend: Backend, ranks: usize) -> Vec<(String, f64)> {
        let rows = Row::compared().into_iter();
        rows.map(|row| (row.to_string(), against_peers(backend, 2, ranks, row)))
            .collect()
    }

    fn rows_with(targets: &[(String, f64)], target: f64) -> Vec<&str> {
        let rows = targets
            .iter()
            .filter(|row| row.1.to_bits() == target.to_bits());
        rows.map(|row| row.0.as_str()).collect()
    }

    #[test]
    fn with_a_processor_each_nobody_is_faster() {
        assert_eq!(rows_with(&targets(Backend::Shm, 2), 1.0).len(), 12);
        assert_eq!(rows_with(&targets(Backend::Shm, 1), 1.0).len(), 12);
    }

    #[test]
    fn small_calls_shine_where_ranks_share_processors() {
        for ranks in [3, 4, 7] {
            let targets = targets(Backend::Shm, ranks);
            assert_eq!(rows_with(&targets, 1.1), ["barrier", "broadcast 8 B"]);
            let better = [
                "allreduce 32 B",
                "allreduce 8 KiB",
                "allgatherv 1 KiB",
                "allgatherv 64 KiB",
            ];
            assert_eq!(rows_with(&targets, 0.8), better);
            assert_eq!(rows_with(&targets, 1.0).len(), 6);
        }
        let targets = targets(Backend::Shm, 8);
        assert_eq!(rows_with(&targets, 0.8), ["broadcast 8 B"]);
        assert_eq!(rows_with(&targets, 0.5).len(), 5);
        assert_eq!(rows_with(&targets, 1.0).len(), 6);
    }

    #[test]
    fn sockets_are_faster_from_3_2_megabytes_on() {
        for ranks in [2, 8] {
            let targets = targets(Backend::Tcp, ranks);
            let large = [
                "allreduce 16 MiB",
                "broadcast 20 MB",
                "allgatherv 3.2 MB",
                "allgatherv 64 MB",
                "allgatherv 206 MB",
            ];
            assert_eq!(rows_with(&targets, 0.8), large);
            assert_eq!(rows_with(&targets, 1.0).len(), 7);
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
        assert_eq!(judge(&nine(0.8), 0.8), Verdict::Holds);
        assert_eq!(judge(&nine(0.84), 0.8), Verdict::Holds);
        assert_eq!(judge(&nine(0.85), 0.8), Verdict::Misses);
    }

    #[test]
    fn few_rounds_and_absent_peers_have_no_verdict() {
        assert_eq!(judge(&[0.1; 8], 1.0), Verdict::TooFew(8));
        assert_eq!(judge(&[], 1.0), Verdict::NoPeer);
    }
}
