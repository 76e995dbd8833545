//! The steps of a program under faults: collectives, and what takes more than one call.

use crate::noise::Noise;
use crate::program::{Collective, CollectiveKind, Mix};

/// Names one step; the same on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProgramStep {
    /// One collective.
    Call(Collective),
    /// A region comes, is written and read some times, and goes.
    Region {
        whole: bool,
        len: usize,
        phases: usize,
    },
    /// The region that lives as long as the program ends its phase.
    Fence,
    /// A split comes, is used, and goes.
    Split,
    /// The split that lives as long as the program is used.
    SplitCall,
    /// Each rank computes for a while of its own.
    Pause { micros: usize },
    /// Small calls without anything in between.
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

/// Mostly small, sometimes past a page, rarely past every slot, very rarely in many pieces.
const MIXED: Mix = Mix {
    kinds: KINDS,
    lengths: &[(1, 300_000), (2, 60_000), (6, 3_000), (51, 40)],
};

/// Moves a lot.
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
        // In a large world every rank has a part of its own to write and the parts of all to read.
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
                // Now and then so long that the others have left before this rank hears of anything.
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
