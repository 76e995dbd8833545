//! The board of a sequence: the shared state of its ranks, somewhere in the file of their segment.

use std::sync::Arc;

use crate::liveness::round;
use crate::one_copy::foreign::Foreign;
use crate::protocol::cause::Cause;
use crate::protocol::control::{Bell, Control, Standing};
use crate::protocol::line::Line;
use crate::protocol::note::Note;
use crate::protocol::sync::Ordering;
use crate::segment::Segment;
use crate::segment::layout::Layout;
use crate::segment::mapping::Mapping;
use crate::segment::ranges::Range;

/// Lines, bells, standings, notes, slots and one control block.
#[derive(Debug)]
pub(crate) struct Board {
    segment: Arc<Segment>,
    map: Arc<Mapping>,
    base: usize,
    layout: Layout,
}

impl Board {
    /// Finds a board that begins `base` bytes into `map`.
    pub(crate) fn new(
        segment: Arc<Segment>,
        map: Arc<Mapping>,
        base: usize,
        layout: Layout,
    ) -> Self {
        Self {
            segment,
            map,
            base,
            layout,
        }
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    #[inline]
    pub(crate) fn map(&self) -> &Mapping {
        &self.map
    }

    /// Returns the number of ranks.
    #[inline]
    pub(crate) fn size(&self) -> usize {
        self.layout.size
    }

    #[inline]
    pub(crate) fn control(&self) -> &Control {
        self.map.at(self.base)
    }

    /// Returns the line of `rank` for steps of the parity of `step`.
    #[inline]
    pub(crate) fn line(&self, rank: usize, step: u64) -> &Line {
        self.map.at(self.base + self.layout.line(rank, step))
    }

    /// Returns the lines of all ranks for steps of the parity of `step`.
    #[inline]
    pub(crate) fn lines(&self, step: u64) -> &[Line] {
        let first = self.base + self.layout.line(0, step);
        self.map.many(first, self.layout.size)
    }

    pub(crate) fn bell(&self, rank: usize) -> &Bell {
        self.map.at(self.base + self.layout.bell(rank))
    }

    pub(crate) fn standing(&self, rank: usize) -> &Standing {
        self.map.at(self.base + self.layout.standing(rank))
    }

    pub(crate) fn note(&self, rank: usize, step: u64) -> &Note {
        self.map.at(self.base + self.layout.note(rank, step))
    }

    /// Returns the offset in the mapping of the slot of `rank` for steps of the parity of `step`.
    #[inline]
    pub(crate) fn slot(&self, rank: usize, step: u64) -> usize {
        self.base + self.layout.slot(rank, step)
    }

    #[inline]
    pub(crate) fn slot_bytes(&self) -> usize {
        self.layout.slot_bytes
    }

    /// Releases the range in which this board lies; the last rank returns its memory.
    pub(crate) fn release(&self, range: Range) {
        let before = self.control().released.fetch_add(1, Ordering::AcqRel);
        if before as usize + 1 == self.size() {
            self.segment.release(range, self.control());
        }
    }

    /// Returns the ranks that this one checks now, as its share of what all waiting ranks do.
    pub(crate) fn to_look_at(&self) -> impl Iterator<Item = usize> + use<> {
        let control = self.control();
        let watchers = control.sleepers.load(Ordering::Relaxed) as usize + 1;
        round::share(&control.turn, self.size(), watchers)
    }

    /// Checks whether the process of `rank` has ended; may open files, so for slow paths only.
    pub(crate) fn is_dead(&self, rank: usize) -> bool {
        self.segment.peers().dead(rank)
    }

    /// Returns whether the ranks read each other's memory; the same on all ranks.
    pub(crate) fn copies_once(&self) -> bool {
        self.segment.foreign().is_some() && self.slot_bytes() > 0
    }

    /// Returns where the memory of `rank` is read, if it is.
    pub(crate) fn foreign(&self, rank: usize) -> Option<Foreign> {
        self.segment.foreign()?.get(rank).copied()
    }

    /// Reads why the sequence failed: its own cause, or the end of the whole job.
    #[inline]
    pub(crate) fn cause(&self) -> Option<Cause> {
        Cause::load(&self.control().cause, self.size())
            .or_else(|| Cause::load(&self.segment.header().abort, self.size()))
    }
}
