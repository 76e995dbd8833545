//! The layout of the file that the ranks share.
//!
//! ```text
//! 0        header          one page: the creator of the segment, and its job
//! 4096     members         64 bytes per rank: which ranks attached
//! ..       sequence        lines, bells, standings, notes, slots of the communicator
//! ..       ranges          regions and splits, behind the end of the segment
//! ```
//!
//! Everything except slots and elements consists of atomics, so a reference to it stays valid whatever
//! another process writes. No value found in it is trusted before it was checked.
//!
//! A segment takes at most 64 KiB + 1 MiB per rank, regardless of payload sizes: of each rank's mebibyte, the
//! slots leave 8 KiB for its lines and notes.

use std::ops::Range;

use crate::protocol::control::{Bell, Control, Standing};
use crate::protocol::line::Line;
use crate::protocol::note::{NOTES, Note, note_index};
use crate::protocol::sync::{AtomicU32, AtomicU64, Futex};

/// The unit in which the parts of a segment are laid out and mapped.
pub(crate) const PAGE: usize = 4096;

/// Where a range may begin: only whole pages can be mapped, and this is the largest page size of the
/// supported systems (4, 16 or 64 KiB). The gap between two ranges is not reserved.
pub(crate) const RANGE_ALIGN: usize = 64 * 1024;

/// The bytes of one slot of a communicator.
pub(crate) const SLOT_BYTES: usize = 508 * 1024;

/// The bytes of one slot of a split communicator, which is meant for start-up.
pub(crate) const SPLIT_SLOT_BYTES: usize = 124 * 1024;

/// The creator of the segment, and its job; complete before any other process can see it.
///
/// The fields up to `news` are the same in every version, so that a rank of another build can end a start in
/// which it cannot take part.
#[repr(C, align(4096))]
#[derive(Debug)]
pub(crate) struct Header {
    /// The words of [`Identity`](crate::segment::identity::Identity).
    pub(crate) identity: [AtomicU64; IDENTITY_WORDS],
    /// The state of the start: 0 while ranks are missing, then [`GO`] or a cause word.
    pub(crate) verdict: AtomicU64,
    /// Counts events for ranks that wait for the start: all have attached, the verdict is written.
    pub(crate) news: Futex,
    /// 1 if all ranks can read the memory of all; written before the verdict.
    pub(crate) one_copy: AtomicU32,
    /// The rank that ended the job, as a cause word.
    pub(crate) abort: AtomicU64,
    /// One bit for each processor that any rank may use.
    pub(crate) processors: [AtomicU64; PROCESSOR_WORDS],
    /// The last range that all ranks have released, see [`given_up`](crate::protocol::given_up).
    pub(crate) given_up: AtomicU64,
    /// The next rank to check while ranks wait for the start.
    pub(crate) turn: AtomicU32,
}

/// The words of the set of processors: as many processors as the system interface supports.
pub(crate) const PROCESSOR_WORDS: usize = 16;

/// All ranks have attached. No cause has this word: there are fewer kinds.
pub(crate) const GO: u64 = u64::MAX;

/// The words at the beginning of a header.
pub(crate) const IDENTITY_WORDS: usize = 48;

/// A rank that attached.
#[repr(C, align(64))]
#[derive(Debug)]
pub(crate) struct Member {
    /// 0, or the [process](crate::liveness::process::Process::seat) of this rank; taken by compare-exchange.
    pub(crate) seat: AtomicU64,
    /// How far the rank has got in attaching.
    pub(crate) ready: AtomicU32,
    /// 1 if this rank can read the memory of all others; written before the rank knows all of them.
    pub(crate) reads: AtomicU32,
    /// Address and word of the rank's [`Beacon`](comm_kit::Beacon), 0 without one; written before the rank
    /// counts as attached.
    pub(crate) beacon: [AtomicU64; 2],
}

/// Where the members begin.
pub(crate) const MEMBERS: usize = size_of::<Header>();

/// Returns where the sequence of the communicator begins.
pub(crate) const fn sequence(size: usize) -> usize {
    (MEMBERS + size * size_of::<Member>()).next_multiple_of(PAGE)
}

/// Returns the bytes of a whole segment.
pub(crate) const fn segment(size: usize, slot_bytes: usize) -> usize {
    sequence(size) + Layout::new(size, slot_bytes).bytes()
}

/// Returns the bytes of a segment that `rank` reserves: its slots, and on rank 0 everything before them.
pub(crate) const fn own(size: usize, slot_bytes: usize, rank: usize) -> Range<usize> {
    let own = Layout::new(size, slot_bytes).own(rank);
    let base = sequence(size);
    let start = if rank == 0 { 0 } else { base + own.start };
    start..base + own.end
}

/// The layout of the shared state of one sequence, relative to its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) size: usize,
    /// The bytes of one slot; 0 for a region, whose ranks only exchange steps.
    pub(crate) slot_bytes: usize,
}

impl Layout {
    pub(crate) const fn new(size: usize, slot_bytes: usize) -> Self {
        Self { size, slot_bytes }
    }

    /// Lines of one parity are adjacent, because a call reads all of them.
    #[inline]
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
        self.notes() + (rank * NOTES + note_index(step)) * size_of::<Note>()
    }

    const fn notes(self) -> usize {
        self.standing(self.size)
    }

    /// Returns where the slots begin.
    pub(crate) const fn payload(self) -> usize {
        (self.notes() + self.size * NOTES * size_of::<Note>()).next_multiple_of(PAGE)
    }

    /// Returns where elements begin in the memory of a region, if they must lie at multiples of `align`.
    pub(crate) fn payload_for(self, align: usize) -> usize {
        self.payload().next_multiple_of(align.min(RANGE_ALIGN))
    }

    #[inline]
    pub(crate) const fn slot(self, rank: usize, step: u64) -> usize {
        let parity = (step % 2) as usize;
        self.payload() + (2 * rank + parity) * self.slot_bytes
    }

    /// Returns the location of the slots of `rank`, which only that rank writes.
    pub(crate) const fn own(self, rank: usize) -> Range<usize> {
        self.slot(rank, 0)..self.slot(rank + 1, 0)
    }

    pub(crate) const fn bytes(self) -> usize {
        self.slot(self.size, 0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
