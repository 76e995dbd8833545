//! Which calls are small: their bytes travel with the entry round.
//!
//! A function of what all ranks know alike, so ranks that agree on a call agree on this, too.
//!
//! On one machine the limits lie where the entry round with all bytes begins to cost as much as one
//! without them, followed by bulk. Measured on two processors, with 2, 4 and 8 ranks.

use crate::call::{Call, Collective};

/// Up to how many bytes a call of two ranks is small, wherever they are: there is no rank between
/// them, and a round trip less.
const PAIR: u64 = 7 << 19;

/// The same for a reduction, which bulk folds while the bytes come in.
const PAIR_REDUCE: u64 = 1 << 20;

/// Up to how many bytes a call is small between ranks of one machine, and for all of them together:
/// everything passes through rank 0.
const NEAR: (u64, u64) = (256 << 10, 3 << 19);

/// The same for a reduction. Bulk pays later here: it goes up the chain of ranks and down again.
const NEAR_REDUCE: (u64, u64) = (896 << 10, 7 << 19);

/// The same where ranks are on several machines, for all calls: the one link of rank 0 carries it
/// all, while bulk has a link of its own between any two neighbours.
const FAR: (u64, u64) = (64 << 10, 1 << 19);

/// Gives up to how many bytes a call is small among `size` ranks; `near` if all run on one machine.
pub(crate) fn limit(call: &Call, size: usize, near: bool) -> u64 {
    let reduces = call.collective == Collective::Allreduce;
    if size == 2 {
        return if reduces { PAIR_REDUCE } else { PAIR };
    }
    let (most, in_all) = match (near, reduces) {
        (true, true) => NEAR_REDUCE,
        (true, false) => NEAR,
        (false, _) => FAR,
    };
    most.min(in_all / size as u64)
}

#[cfg(test)]
mod tests {
    use comm_api::{ReduceOp, ScalarKind};

    use super::*;
    use crate::frame::MOST_EAGER;

    #[test]
    fn what_is_small_fits_into_a_frame_and_shrinks_with_the_ranks() {
        let reduce = Call::allreduce(8, ScalarKind::F64, ReduceOp::Sum);
        let gather = Call::allgatherv(&[1, 1], 1);
        for call in [reduce, gather, Call::broadcast(1, 1, 0)] {
            for near in [true, false] {
                for size in 2..200 {
                    assert!(limit(&call, size, near) <= MOST_EAGER);
                    assert!(limit(&call, size + 1, near) <= limit(&call, size, near));
                    assert!(limit(&call, size, false) <= limit(&call, size, near));
                }
            }
        }
        assert_eq!(limit(&gather, 8, true), 196_608);
        assert_eq!(limit(&reduce, 8, true), 458_752);
        assert_eq!(limit(&gather, 8, false), 65_536);
        assert_eq!(limit(&reduce, 16, false), 32_768);
    }
}
