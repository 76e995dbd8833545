//! How the bytes of a call travel: decided here, once per call.
//!
//! A function of what all ranks know alike, so ranks that agree on a call agree on its way, too.
//! Below this file there is one file per way: [`entry`] moves what is small, [`pair`], [`ring`] and
//! [`pieces`] what is large; [`in_place`] what a rank sends from where the result goes.
//!
//! The limits of what is small lie where the entry round with all bytes begins to cost as much as one
//! without them, followed by bulk. With more ranks both cost more, bulk because it goes from neighbour
//! to neighbour: so no limit falls towards nothing with the number of ranks.

mod entry;
pub(crate) mod in_place;
mod pair;
mod pieces;
pub(crate) mod ring;

use comm_api::{ReduceOp, ScalarKind};
use comm_kit::Call;

use super::Failure;
use crate::engine::{Engine, Task};
use crate::link::Broken;

#[cfg(test)]
pub(crate) use entry::Outgoing;
pub(crate) use entry::{Contributions, Heads, Incoming, Sink};
pub(crate) use in_place::InPlace;
pub(crate) use pair::{Folding, PairTransfer};

/// How the bytes of a call travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// Small, two ranks: each sends its bytes to the other with its entry.
    SmallPair,
    /// Small, more ranks: to rank 0 with the entries, and back with the answers.
    SmallStar,
    /// Large, two ranks: after the entry round, both ways at once over their only data link.
    LargePair,
    /// Large, more ranks: after the entry round, from neighbour to neighbour.
    Ring,
    /// Large, more ranks that have no ring: through rank 0, each piece with an entry round of its own.
    Pieces,
}

/// What a call moves.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Load {
    /// The blocks of all ranks to all ranks: this many bytes together.
    Gathered(usize),
    /// This many bytes of one rank to all others.
    Copied(usize),
    /// This many bytes of each rank, which are folded.
    Folded(usize),
}

impl Load {
    /// Returns how many bytes that is.
    fn bytes(self) -> usize {
        let (Self::Gathered(bytes) | Self::Copied(bytes) | Self::Folded(bytes)) = self;
        bytes
    }
}

/// Where the ranks run; the same on all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosts {
    /// On one machine that has fewer processors than ranks.
    OneCrowded,
    /// On one machine, each with a processor of its own.
    One,
    /// On several machines.
    Several,
}

impl Hosts {
    /// Tells where `size` ranks run of which `local` run here, and whether they are crowded there.
    pub(crate) fn of(size: usize, local: usize, crowded: bool) -> Self {
        match local == size {
            true if crowded => Self::OneCrowded,
            true => Self::One,
            false => Self::Several,
        }
    }
}

impl Algorithm {
    /// Decides the way of a call among `size` ranks.
    pub(crate) fn of(load: Load, size: usize, hosts: Hosts, has_ring: bool) -> Self {
        let small = load.bytes() <= Self::limit(load, size, hosts);
        match (size, small) {
            (2, true) => Self::SmallPair,
            (_, true) => Self::SmallStar,
            (2, false) => Self::LargePair,
            (_, false) if has_ring => Self::Ring,
            (_, false) => Self::Pieces,
        }
    }

    /// Returns up to how many bytes a call with such a load is small among `size` ranks.
    pub(crate) fn limit(load: Load, size: usize, hosts: Hosts) -> usize {
        let limit = match (hosts, load) {
            (_, Load::Folded(_)) if size == 2 => return PAIR_REDUCE,
            _ if size == 2 => return PAIR,
            (Hosts::OneCrowded, Load::Gathered(_)) => CROWDED_GATHER,
            (Hosts::OneCrowded, Load::Copied(_)) => CROWDED,
            (Hosts::OneCrowded, Load::Folded(_)) => CROWDED_REDUCE,
            (Hosts::One, Load::Folded(_)) => NEAR_REDUCE,
            (Hosts::One, _) => NEAR,
            (Hosts::Several, _) => FAR,
        };
        limit.most.min(limit.in_all / size).max(limit.least)
    }

    /// Returns how long a piece of a large call is among `size` ranks that have no ring: as long as a small call may be
    /// anywhere, and whole elements of `element` bytes.
    pub(crate) fn piece(load: Load, size: usize, element: usize) -> usize {
        let limit = Self::limit(load, size, Hosts::OneCrowded);
        limit - limit % element
    }

    /// Returns whether the bytes travel with entry rounds.
    fn is_carried(self) -> bool {
        matches!(self, Self::SmallPair | Self::SmallStar | Self::Pieces)
    }
}

impl Engine {
    /// Decides the algorithm of a call, and goes through the entry round if no bytes travel with it.
    pub(super) fn begin(&mut self, call: Call, load: Load) -> Result<Algorithm, Failure> {
        let algorithm = Algorithm::of(load, self.size, self.hosts, self.links.ring.is_some());
        if !algorithm.is_carried() {
            self.agree(call)?;
        }
        Ok(algorithm)
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

/// Up to how many bytes a call of three or more ranks is small. All of them pass through rank 0.
struct Limit {
    /// With few ranks.
    most: usize,
    /// Of all ranks together.
    in_all: usize,
    /// With many ranks: a share of `in_all` would save rank 0 less than the hops of bulk cost.
    least: usize,
}

/// With more ranks than processors each hop of bulk waits for a processor, and every block makes a
/// hop per rank: bulk pays late, whatever the number of ranks. Measured on two processors with 4 to
/// 256 ranks, like the next two.
const CROWDED_GATHER: Limit = Limit {
    most: 1 << 20,
    in_all: usize::MAX,
    least: 1 << 20,
};

/// There a broadcast makes one hop per rank.
const CROWDED: Limit = Limit {
    most: 1 << 20,
    in_all: 16 << 20,
    least: 64 << 10,
};

/// And a reduction two, up the chain of ranks and down again; but rank 0 folds all alone.
const CROWDED_REDUCE: Limit = Limit {
    most: 896 << 10,
    in_all: 12 << 20,
    least: 64 << 10,
};

/// Where every rank has a processor, bulk moves on all of them at once and a hop takes some
/// microseconds: as long as rank 0 takes to send `least` bytes to one rank more.
const NEAR: Limit = Limit {
    most: 256 << 10,
    in_all: 3 << 19,
    least: 64 << 10,
};

/// The same for a reduction.
const NEAR_REDUCE: Limit = Limit {
    most: 896 << 10,
    in_all: 7 << 19,
    least: 64 << 10,
};

/// The same where ranks are on several machines, for all calls: the one link of rank 0 carries it
/// all, while bulk has a link of its own between any two neighbours. With many ranks both sides cost
/// the same at the product of a link's rate and latency: 6 KB at 1 Gbit/s, 25 KB at 10, 190 KB at 100.
const FAR: Limit = Limit {
    most: 64 << 10,
    in_all: 1 << 19,
    least: 16 << 10,
};

/// The most that is moved in one go, so that reading and writing take turns.
const PORTION: usize = 1 << 20;

/// Folds bytes that came over a link: whole elements, of equal length, of an operation that was
/// checked. So this cannot fail; if it did, it would end the call like a broken link to `peer`.
pub(super) fn fold(
    into: &mut [u8],
    other: &[u8],
    (op, scalar): (ReduceOp, ScalarKind),
    peer: usize,
) -> Result<(), Broken> {
    op.fold_into(into, other, scalar).map_err(|error| Broken {
        peer,
        reason: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::MOST_EAGER;

    #[test]
    fn what_is_small_fits_into_a_frame_and_shrinks_with_the_ranks_to_a_floor() {
        for load in [Load::Gathered(8), Load::Copied(8), Load::Folded(8)] {
            for hosts in [Hosts::OneCrowded, Hosts::One, Hosts::Several] {
                for size in 2..2000 {
                    let limit = Algorithm::limit(load, size, hosts);
                    assert!(limit as u64 <= MOST_EAGER);
                    assert!(limit >= 16 << 10);
                    assert!(Algorithm::limit(load, size + 1, hosts) <= limit);
                    assert!(Algorithm::limit(load, size, Hosts::Several) <= limit);
                    assert!(limit <= Algorithm::limit(load, size, Hosts::OneCrowded));
                }
            }
        }
        let limit = |load, size, hosts| Algorithm::limit(load, size, hosts) >> 10;
        let (moved, folded) = (Load::Copied(8), Load::Folded(8));
        assert_eq!(limit(moved, 8, Hosts::One), 192);
        assert_eq!(limit(folded, 8, Hosts::One), 448);
        assert_eq!(limit(moved, 8, Hosts::Several), 64);
        assert_eq!(limit(folded, 16, Hosts::Several), 32);
        assert_eq!(limit(Load::Gathered(8), 256, Hosts::OneCrowded), 1024);
        assert_eq!(limit(moved, 64, Hosts::OneCrowded), 256);
        assert_eq!(limit(folded, 64, Hosts::OneCrowded), 192);
    }

    #[test]
    fn what_rank_0_keeps_for_a_small_reduction_is_bounded() {
        for size in 3..=2048 {
            for hosts in [Hosts::OneCrowded, Hosts::One, Hosts::Several] {
                let kept = (size - 1) * Algorithm::limit(Load::Folded(8), size, hosts);
                let bound = (12 << 20).max(size << 16);
                assert!(kept <= bound, "{size} ranks: {kept}");
            }
        }
    }

    #[test]
    fn ranks_that_are_not_all_here_are_on_several_machines_however_crowded_it_is_here() {
        assert_eq!(Hosts::of(4, 4, false), Hosts::One);
        assert_eq!(Hosts::of(4, 4, true), Hosts::OneCrowded);
        for crowded in [true, false] {
            assert_eq!(Hosts::of(4, 1, crowded), Hosts::Several);
            assert_eq!(Hosts::of(4, 3, crowded), Hosts::Several);
        }
        // What is bulk between machines goes along the ring there, and not yet on one machine.
        let load = Load::Gathered(100 << 10);
        assert_eq!(
            Algorithm::of(load, 4, Hosts::of(4, 1, true), true),
            Algorithm::Ring
        );
        assert_eq!(
            Algorithm::of(load, 4, Hosts::of(4, 4, true), true),
            Algorithm::SmallStar
        );
    }

    #[test]
    fn a_call_goes_its_way_by_size_ranks_and_ring() {
        let (small, large) = (Load::Gathered(1), Load::Gathered(1 << 30));
        for hosts in [Hosts::OneCrowded, Hosts::One, Hosts::Several] {
            for ring in [true, false] {
                assert_eq!(Algorithm::of(small, 2, hosts, ring), Algorithm::SmallPair);
                assert_eq!(Algorithm::of(large, 2, hosts, ring), Algorithm::LargePair);
                assert_eq!(Algorithm::of(small, 3, hosts, ring), Algorithm::SmallStar);
            }
            assert_eq!(Algorithm::of(large, 3, hosts, true), Algorithm::Ring);
            assert_eq!(Algorithm::of(large, 3, hosts, false), Algorithm::Pieces);
        }
        for element in [1, 2, 4, 8] {
            let piece = Algorithm::piece(Load::Folded(1 << 30), 13, element);
            assert!(piece >= 64 << 10 && piece.is_multiple_of(element));
        }
        let at = Algorithm::limit(small, 4, Hosts::One);
        let algorithm = |bytes| Algorithm::of(Load::Gathered(bytes), 4, Hosts::One, true);
        assert_eq!(
            (algorithm(at), algorithm(at + 1)),
            (Algorithm::SmallStar, Algorithm::Ring)
        );
    }
}
