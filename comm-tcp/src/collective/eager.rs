//! Which calls are small: their bytes travel with the entry round.
//!
//! A function of what all ranks know alike, so ranks that agree on a call agree on this, too.

/// Up to how many bytes a call is small between ranks of one machine. Measured on two processors: near
/// the point where bulk costs the same, though a step up of some calls is left, most in allreduce.
const NEAR: u64 = 256 << 10;

/// Up to how many bytes rank 0 takes or sends in a small call, for all ranks of one machine together.
const NEAR_IN_ALL: u64 = 3 << 19;

/// The same where ranks are on several machines: the one link of rank 0 carries it all, while bulk
/// has a link of its own between any two neighbours.
const FAR: u64 = 64 << 10;

/// For all ranks of several machines together.
const FAR_IN_ALL: u64 = 1 << 19;

/// Gives up to how many bytes a call is small; `near` if all ranks run on one machine.
pub(crate) fn limit(size: usize, near: bool) -> u64 {
    let (most, in_all) = if near {
        (NEAR, NEAR_IN_ALL)
    } else {
        (FAR, FAR_IN_ALL)
    };
    // Two ranks have no rank between them.
    if size == 2 {
        most
    } else {
        most.min(in_all / size as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MOST_EAGER;

    #[test]
    fn what_is_small_fits_into_a_frame_and_shrinks_with_the_ranks() {
        for near in [true, false] {
            for size in 2..200 {
                assert!(limit(size, near) <= MOST_EAGER);
                assert!(limit(size + 1, near) <= limit(size, near));
                assert!(limit(size, false) <= limit(size, near));
            }
        }
        assert_eq!(limit(8, true), 196_608);
        assert_eq!(limit(8, false), 65_536);
        assert_eq!(limit(16, false), 32_768);
    }
}
