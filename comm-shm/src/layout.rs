//! Where everything lies in the file that the ranks share.
//!
//! ```text
//! 0        header          one page: who made the segment, and for whom
//! 4096     members         64 bytes per rank: who came
//! ..       sequence        lines, bells, standings, notes, slots of the communicator
//! ..       ranges          regions and splits, behind the end of the segment
//! ```
//!
//! A segment takes at most 64 KiB + 1 MiB per rank, whatever travels through it: the slots of a
//! rank leave 8 KiB of its mebibyte to its lines and notes.

use crate::board::{Bell, Control, Line, NOTES, Note, Standing, slot_of};
use crate::sync::{AtomicU32, AtomicU64};

/// The unit in which memory is mapped, or a multiple of it.
pub(crate) const PAGE: usize = if cfg!(target_os = "macos") {
    16384
} else {
    4096
};

/// The bytes of one slot of a communicator.
pub(crate) const SLOT: usize = 508 * 1024;

/// The bytes of one slot of a split communicator, which is for start-up.
pub(crate) const SPLIT_SLOT: usize = 124 * 1024;

/// Who made the segment; complete before anybody can see it.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Header {
    /// The words of [`Identity`](crate::identity::Identity).
    pub(crate) identity: [AtomicU64; IDENTITY_WORDS],
    /// How the start went: 0 as long as ranks are waited for, then [`GO`] or a cause word.
    pub(crate) verdict: AtomicU64,
    /// Who ended the job, a cause word.
    pub(crate) abort: AtomicU64,
}

/// All ranks have come. No cause has this word: there are fewer kinds.
pub(crate) const GO: u64 = u64::MAX;

/// The words a header begins with.
pub(crate) const IDENTITY_WORDS: usize = 48;

/// A rank that came.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Member {
    /// 0, or the process of this rank; taken by compare-exchange.
    pub(crate) pid: AtomicU64,
    /// When that process started, in ticks since the machine did.
    pub(crate) start: AtomicU64,
    /// How far the rank is on its way in.
    pub(crate) ready: AtomicU32,
}

/// Gives where the members begin.
pub(crate) const MEMBERS: usize = size_of::<Header>();

/// Gives where the sequence of the communicator begins.
pub(crate) const fn sequence(size: usize) -> usize {
    (MEMBERS + size * size_of::<Member>()).next_multiple_of(PAGE)
}

/// Gives the bytes of a whole segment with slots of `slot` bytes.
pub(crate) const fn segment(size: usize, slot: usize) -> usize {
    sequence(size) + Plan::new(size, slot).bytes()
}

/// Places what the ranks of one sequence share, relative to where it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) size: usize,
    /// The bytes of one slot; 0 for a region, whose ranks exchange nothing but steps.
    pub(crate) slot: usize,
}

impl Plan {
    pub(crate) const fn new(size: usize, slot: usize) -> Self {
        Self { size, slot }
    }

    /// Lines of one parity lie together: a call reads them all.
    pub(crate) const fn line(self, rank: usize, step: u64) -> usize {
        let parity = if step % 2 == 1 { self.size } else { 0 };
        size_of::<Control>() + (parity + rank) * size_of::<Line>()
    }

    pub(crate) const fn bell(self, rank: usize) -> usize {
        self.line(self.size, 1) + rank * size_of::<Bell>()
    }

    pub(crate) const fn standing(self, rank: usize) -> usize {
        self.bell(self.size) + rank * size_of::<Standing>()
    }

    pub(crate) fn note(self, rank: usize, step: u64) -> usize {
        self.notes() + (rank * NOTES + slot_of(step)) * size_of::<Note>()
    }

    const fn notes(self) -> usize {
        self.standing(self.size)
    }

    /// Gives where the slots begin, or the memory of a region.
    pub(crate) const fn payload(self) -> usize {
        (self.notes() + self.size * NOTES * size_of::<Note>()).next_multiple_of(PAGE)
    }

    pub(crate) const fn slot(self, rank: usize, step: u64) -> usize {
        let parity = (step % 2) as usize;
        self.payload() + (2 * rank + parity) * self.slot
    }

    pub(crate) const fn bytes(self) -> usize {
        self.slot(self.size, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_keeps_its_bound() {
        for size in 1..=1024 {
            let bytes = segment(size, SLOT);
            assert!(
                bytes <= 64 * 1024 + size * 1024 * 1024,
                "{size} ranks take {bytes}"
            );
            assert_eq!(bytes % PAGE, 0);
        }
    }

    #[test]
    fn nothing_overlaps() {
        for (size, slot) in [(1, SLOT), (2, SLOT), (3, SPLIT_SLOT), (8, SLOT), (5, 0)] {
            let plan = Plan::new(size, slot);
            let mut parts = vec![(0, size_of::<Control>())];
            for rank in 0..size {
                for step in 0..2 {
                    parts.push((plan.line(rank, step), size_of::<Line>()));
                    parts.push((plan.slot(rank, step), slot));
                }
                parts.push((plan.bell(rank), size_of::<Bell>()));
                parts.push((plan.standing(rank), size_of::<Standing>()));
                for step in 0..NOTES as u64 {
                    parts.push((plan.note(rank, step), size_of::<Note>()));
                }
            }
            parts.sort_unstable();
            for pair in parts.windows(2) {
                assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{pair:?} of {plan:?}");
            }
            let (last, length) = parts[parts.len() - 1];
            assert!(last + length <= plan.bytes());
        }
    }
}
