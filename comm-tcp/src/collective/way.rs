//! How the bytes of a call travel: decided here, once per call.
//!
//! A function of what all ranks know alike, so ranks that agree on a call agree on its way, too.
//! Below this file there is one file per way: [`entry`] moves what is small, [`pair`], [`ring`] and
//! [`relay`] what is large.
//!
//! On one machine the limits of what is small lie where the entry round with all bytes begins to
//! cost as much as one without them, followed by bulk. Measured on two processors, with 2, 4 and 8
//! ranks.

mod entry;
mod pair;
pub(crate) mod relay;
pub(crate) mod ring;

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::{Call, fold_into};

use super::Failure;
use crate::engine::{Engine, Task};
use crate::link::Broken;

#[cfg(test)]
pub(crate) use entry::Outgoing;
pub(crate) use entry::{Contributions, Heads, Incoming, Sink};
pub(crate) use pair::{Exchange, Folding};

/// How the bytes of a call travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// Small, two ranks: each sends its bytes to the other with its entry.
    SmallPair,
    /// Small, more ranks: to rank 0 with the entries, and back with the answers.
    SmallStar,
    /// Large, two ranks: after the entry round, both ways at once over their only data link.
    LargePair,
    /// Large, more ranks: after the entry round, from neighbour to neighbour.
    Ring,
    /// Large, more ranks that have no ring: after the entry round, through rank 0.
    Relay,
}

/// What a call moves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// This many bytes, of all ranks together.
    Moved(usize),
    /// This many bytes of each rank, which are folded.
    Folded(usize),
}

impl Way {
    /// Decides the way of a call among `size` ranks; `near` if all run on one machine.
    pub(crate) fn of(load: Load, size: usize, near: bool, has_ring: bool) -> Self {
        let (Load::Moved(bytes) | Load::Folded(bytes)) = load;
        let small = bytes <= Self::limit(load, size, near);
        match (size, small) {
            (2, true) => Self::SmallPair,
            (_, true) => Self::SmallStar,
            (2, false) => Self::LargePair,
            (_, false) if has_ring => Self::Ring,
            (_, false) => Self::Relay,
        }
    }

    /// Returns up to how many bytes a call with such a load is small among `size` ranks; `near` if all
    /// run on one machine.
    pub(crate) fn limit(load: Load, size: usize, near: bool) -> usize {
        let reduces = matches!(load, Load::Folded(_));
        if size == 2 {
            return if reduces { PAIR_REDUCE } else { PAIR };
        }
        let (most, in_all) = match (near, reduces) {
            (true, true) => NEAR_REDUCE,
            (true, false) => NEAR,
            (false, _) => FAR,
        };
        most.min(in_all / size)
    }

    /// Returns whether the bytes travel with the entry round.
    fn is_small(self) -> bool {
        matches!(self, Self::SmallPair | Self::SmallStar)
    }
}

impl Engine {
    /// Decides the way of a call, and goes through the entry round if no bytes travel with it.
    pub(super) fn begin(&mut self, call: Call, load: Load) -> Result<Way, Failure> {
        let way = Way::of(load, self.size, self.near, self.links.ring.is_some());
        if !way.is_small() {
            self.agree(call)?;
        }
        Ok(way)
    }

    /// Moves the bytes of a large call.
    pub(super) fn run(&mut self, call: Call, mut task: impl Task) -> Result<(), Failure> {
        Ok(self.drive(call, &mut task)?)
    }

    /// Returns the rank at the other end of the only data link: of two ranks, or of a worker.
    pub(super) fn peer(&self) -> usize {
        self.links.data[0].peer()
    }
}

/// Up to how many bytes a call of two ranks is small, wherever they are: there is no rank between
/// them, and a round trip less.
const PAIR: usize = 7 << 19;

/// The same for a reduction, which bulk folds while the bytes come in.
const PAIR_REDUCE: usize = 1 << 20;

/// Up to how many bytes a call is small between ranks of one machine, and for all of them together:
/// everything passes through rank 0.
const NEAR: (usize, usize) = (256 << 10, 3 << 19);

/// The same for a reduction. Bulk pays later here: it goes up the chain of ranks and down again.
const NEAR_REDUCE: (usize, usize) = (896 << 10, 7 << 19);

/// The same where ranks are on several machines, for all calls: the one link of rank 0 carries it
/// all, while bulk has a link of its own between any two neighbours.
const FAR: (usize, usize) = (64 << 10, 1 << 19);

/// The most that is moved in one go, so that reading and writing take turns.
const PORTION: usize = 1 << 20;

/// Folds bytes that came over a link: whole elements, of equal length, of an operation that was
/// checked. So this cannot fail; if it did, it would end the call like a broken link to `peer`.
fn fold(
    into: &mut [u8],
    other: &[u8],
    (op, scalar): (ReduceOp, ScalarKind),
    peer: usize,
) -> Result<(), Broken> {
    fold_into(into, other, scalar, op).map_err(|error| Broken {
        peer,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MOST_EAGER;

    #[test]
    fn what_is_small_fits_into_a_frame_and_shrinks_with_the_ranks() {
        let (moved, folded) = (Load::Moved(8), Load::Folded(8));
        for load in [moved, folded] {
            for near in [true, false] {
                for size in 2..200 {
                    assert!(Way::limit(load, size, near) as u64 <= MOST_EAGER);
                    assert!(Way::limit(load, size + 1, near) <= Way::limit(load, size, near));
                    assert!(Way::limit(load, size, false) <= Way::limit(load, size, near));
                }
            }
        }
        assert_eq!(Way::limit(moved, 8, true), 196_608);
        assert_eq!(Way::limit(folded, 8, true), 458_752);
        assert_eq!(Way::limit(moved, 8, false), 65_536);
        assert_eq!(Way::limit(folded, 16, false), 32_768);
    }

    #[test]
    fn a_call_goes_its_way_by_size_ranks_and_ring() {
        let (small, large) = (Load::Moved(1), Load::Moved(1 << 30));
        for near in [true, false] {
            for ring in [true, false] {
                assert_eq!(Way::of(small, 2, near, ring), Way::SmallPair);
                assert_eq!(Way::of(large, 2, near, ring), Way::LargePair);
                assert_eq!(Way::of(small, 3, near, ring), Way::SmallStar);
            }
            assert_eq!(Way::of(large, 3, near, true), Way::Ring);
            assert_eq!(Way::of(large, 3, near, false), Way::Relay);
        }
        let at = Way::limit(small, 4, true);
        let way = |bytes| Way::of(Load::Moved(bytes), 4, true, true);
        assert_eq!((way(at), way(at + 1)), (Way::SmallStar, Way::Ring));
    }
}
