//! The steps of a random program: each checks its own result against what the inputs, which every rank can make,
//! must give.

use comm_api::ReduceOp;

use crate::noise::Noise;

/// Names one step; the same on every rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Barrier,
    Broadcast {
        element: Element,
        len: usize,
        root: usize,
    },
    Reduce {
        scalar: Scalar,
        op: ReduceOp,
        len: usize,
    },
    Gather {
        element: Element,
        counts: Vec<usize>,
        gap: usize,
    },
    /// One rank gives arguments that are refused.
    Refused {
        culprit: usize,
    },
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
    Pause {
        micros: usize,
    },
    /// Small calls without anything in between.
    Burst {
        calls: usize,
    },
}

/// Names what travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Element {
    Byte,
    Triple,
    Double,
    Cut,
}

/// Names what is folded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
    Byte,
    Int,
    Float,
    Double,
}

impl Step {
    /// Gives the step `index` of the program `seed`.
    pub(crate) fn draw(seed: u64, index: usize, size: usize) -> Self {
        let mut noise = Noise::new(seed, &[size, index, 0x57e9]);
        let noise = &mut noise;
        // Every fourth program moves a lot.
        let bulk = seed.is_multiple_of(4);
        let elements = [
            Element::Byte,
            Element::Triple,
            Element::Double,
            Element::Cut,
        ];
        match noise.below(32) {
            0 | 1 => Self::Barrier,
            2..=5 => Self::Broadcast {
                element: noise.pick(&elements),
                len: length(noise, bulk),
                root: noise.below(size),
            },
            6..=9 => {
                let scalar =
                    noise.pick(&[Scalar::Byte, Scalar::Int, Scalar::Float, Scalar::Double]);
                let floats = matches!(scalar, Scalar::Float | Scalar::Double);
                Self::Reduce {
                    scalar,
                    op: ReduceOp::ALL[noise.below(if floats { 3 } else { 5 })],
                    len: length(noise, bulk).max(1),
                }
            }
            10..=14 => Self::Gather {
                element: noise.pick(&elements),
                counts: (0..size).map(|_| length(noise, bulk) / size).collect(),
                gap: noise.below(4),
            },
            15 | 16 => Self::Refused {
                culprit: noise.below(size),
            },
            17 | 18 => Self::Region {
                whole: noise.below(2) == 0,
                len: length(noise, bulk),
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
                calls: 10 + noise.below(150),
            },
        }
    }
}

/// Mostly small, sometimes past a page, rarely past every slot, very rarely in many pieces.
fn length(noise: &mut Noise, bulk: bool) -> usize {
    let most = match noise.below(60) {
        0 => 300_000,
        10..30 if bulk => 500_000,
        1 | 2 => 60_000,
        3..=8 => 3_000,
        _ => 40,
    };
    noise.below(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_the_same_for_everybody() {
        for index in 0..100 {
            let step = Step::draw(3, index, 4);
            assert_eq!(step, Step::draw(3, index, 4));
        }
    }
}
