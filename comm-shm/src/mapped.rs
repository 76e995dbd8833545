//! The board of a sequence in mapped memory.

use std::sync::Arc;

use crate::board::{Bell, Board, Control, Line, Note, Standing};
use crate::cause::Cause;
use crate::layout::{Header, Plan};
use crate::mapping::Mapping;
use crate::segment::Segment;

/// What the ranks of one sequence share, somewhere in the file of their segment.
#[derive(Debug)]
pub(crate) struct Mapped {
    segment: Arc<Segment>,
    map: Arc<Mapping>,
    base: usize,
    plan: Plan,
}

impl Mapped {
    /// Finds a board that begins `base` bytes into `map`.
    pub(crate) fn new(segment: Arc<Segment>, map: Arc<Mapping>, base: usize, plan: Plan) -> Self {
        Self {
            segment,
            map,
            base,
            plan,
        }
    }

    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    pub(crate) fn map(&self) -> &Mapping {
        &self.map
    }

    /// Gives where the slot of `rank` lies, and its bytes.
    #[inline]
    pub(crate) fn slot(&self, rank: usize, step: u64) -> (usize, usize) {
        (self.base + self.plan.slot(rank, step), self.plan.slot)
    }
}

impl Board for Mapped {
    #[inline]
    fn size(&self) -> usize {
        self.plan.size
    }

    #[inline]
    fn control(&self) -> &Control {
        self.map.at(self.base)
    }

    #[inline]
    fn line(&self, rank: usize, step: u64) -> &Line {
        self.map.at(self.base + self.plan.line(rank, step))
    }

    fn bell(&self, rank: usize) -> &Bell {
        self.map.at(self.base + self.plan.bell(rank))
    }

    fn standing(&self, rank: usize) -> &Standing {
        self.map.at(self.base + self.plan.standing(rank))
    }

    fn note(&self, rank: usize, step: u64) -> &Note {
        self.map.at(self.base + self.plan.note(rank, step))
    }

    fn dead(&self, rank: usize) -> bool {
        self.segment.peers().dead(rank)
    }

    #[inline]
    fn aborted(&self) -> Option<Cause> {
        let header: &Header = self.segment.header();
        Cause::load(&header.abort, self.plan.size)
    }
}
