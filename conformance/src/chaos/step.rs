//! The steps of a program under faults: collectives, and sequences of more than one call.

use crate::noise::Noise;
use crate::program::{Collective, CollectiveKind, Mix};

/// One step; the same on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramStep {
    /// One collective.
    Call(Collective),
    /// A region is created, written and read several times, and dropped.
    Region {
        whole: bool,
        len: usize,
        phases: usize,
    },
    /// A phase of the region that lives as long as the program ends.
    Fence,
    /// A split is created, used, and dropped.
    Split,
    /// The split that lives as long as the program is used.
    SplitCall,
    /// Each rank computes for a time of its own.
    Pause { micros: usize },
    /// Small calls in direct succession.
    Burst { calls: usize },
}

const KINDS: &[(usize, CollectiveKind)] = &[
    (2, CollectiveKind::Barrier),
    (4, CollectiveKind::Broadcast),
    (4, CollectiveKind::Reduce),
    (1, CollectiveKind::ReduceInPlace),
    (5, CollectiveKind::Gather),
    (3, CollectiveKind::Exchange),
    (2, CollectiveKind::Refused),
];

/// Mostly small, sometimes more than a page, rarely more than a slot, very rarely in many pieces.
const MIXED: Mix = Mix {
    kinds: KINDS,
    lengths: &[(1, 300_000), (2, 60_000), (6, 3_000), (51, 40)],
};

/// Large payloads.
const BULK: Mix = Mix {
    kinds: KINDS,
    lengths: &[
        (1, 300_000),
        (20, 500_000),
        (2, 60_000),
        (6, 3_000),
        (31, 40),
    ],
};

impl ProgramStep {
    /// Returns the step `index` of the program `seed`.
    pub(crate) fn draw(seed: u64, index: usize, size: usize) -> Self {
        let mut noise = Noise::new(seed, &[size, index, 0x57e9]);
        let noise = &mut noise;
        let mix = if seed.is_multiple_of(4) { BULK } else { MIXED };
        // In a large world, every rank has its own part to write and all parts to read.
        let share = size.div_ceil(8);
        match noise.below(32) {
            0..17 => Self::Call(Collective::draw(noise, &mix, size)),
            17 | 18 => Self::Region {
                whole: noise.below(2) == 0,
                len: mix.length(noise) / share,
                phases: 1 + noise.below(4),
            },
            19..=21 => Self::Fence,
            22 => Self::Split,
            23 | 24 => Self::SplitCall,
            25..=27 => Self::Pause {
                // Sometimes so long that the others have left before this rank notices anything.
                micros: noise.pick(&[300, 3_000, 6_000, 6_000, 300_000]),
            },
            _ => Self::Burst {
                calls: 10 + noise.below(150) / share,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_same_for_everybody() {
        for index in 0..100 {
            let step = ProgramStep::draw(3, index, 4);
            assert_eq!(step, ProgramStep::draw(3, index, 4));
        }
    }
}
