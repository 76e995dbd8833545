//! Which part of the file is in use: the leader allocates ranges and takes them back.
//!
//! Released ranges are reused from the front: the file stays as long as the ranges in use at one time, so
//! that regions that come and go do not reach a limit on its size.

use std::collections::BTreeMap;

use crate::segment::layout;

const ALIGN: u64 = layout::RANGE_ALIGN as u64;

/// A range of the file, reserved until the last rank releases it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
}

impl Range {
    /// Returns where the next range may begin.
    fn end(self) -> u64 {
        (self.offset + self.bytes).next_multiple_of(ALIGN)
    }
}

/// The ranges behind the end of the segment.
#[derive(Debug)]
pub(crate) struct Ranges {
    /// Nothing is in use from here on.
    tail: u64,
    /// The free ranges before that: in order, no two adjacent.
    free: Vec<Range>,
    /// The allocated ranges: their lengths in bytes, by where they begin.
    used: BTreeMap<u64, u64>,
}

impl Ranges {
    /// Starts behind a segment of `end` bytes.
    pub(crate) fn new(end: u64) -> Self {
        Self {
            tail: end.next_multiple_of(ALIGN),
            free: Vec::new(),
            used: BTreeMap::new(),
        }
    }

    /// Finds the first gap for `bytes`.
    pub(crate) fn find(&self, bytes: u64) -> Range {
        let fitting = self.free.iter().find(|free| free.bytes >= bytes);
        let offset = fitting.map_or(self.tail, |free| free.offset);
        Range { offset, bytes }
    }

    /// Allocates a range that was [found](Self::find).
    pub(crate) fn take(&mut self, range: Range) {
        self.used.insert(range.offset, range.bytes);
        let place = self
            .free
            .iter()
            .position(|free| free.offset == range.offset);
        let Some(place) = place else {
            self.tail = range.end();
            return;
        };
        let free = self.free[place];
        let (offset, end) = (range.end(), free.offset + free.bytes);
        if offset < end {
            let bytes = end - offset;
            self.free[place] = Range { offset, bytes };
        } else {
            self.free.remove(place);
        }
    }

    /// Returns the allocated range that begins at `offset`; no rank uses it any longer.
    pub(crate) fn remove(&mut self, offset: u64) -> Option<Range> {
        let bytes = self.used.remove(&offset)?;
        Some(Range { offset, bytes })
    }

    /// Takes back a range that was [removed](Self::remove); it reads as zeros.
    pub(crate) fn give_back(&mut self, range: Range) {
        let (mut start, mut end) = (range.offset, range.end());
        let touches = |free: &Range, start, end| free.offset <= end && start <= free.end();
        self.free.retain(|free| {
            let joined = touches(free, start, end);
            if joined {
                start = start.min(free.offset);
                end = end.max(free.end());
            }
            !joined
        });
        if end == self.tail {
            self.tail = start;
            return;
        }
        let place = self.free.partition_point(|free| free.offset < start);
        let bytes = end - start;
        let free = Range {
            offset: start,
            bytes,
        };
        self.free.insert(place, free);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: u64 = ALIGN;

    fn take(ranges: &mut Ranges, bytes: u64) -> Range {
        let range = ranges.find(bytes);
        ranges.take(range);
        range
    }

    fn give_back(ranges: &mut Ranges, range: Range) {
        assert_eq!(ranges.remove(range.offset), Some(range));
        assert_eq!(ranges.remove(range.offset), None);
        ranges.give_back(range);
    }

    #[test]
    fn every_range_begins_at_a_page_of_any_size() {
        let mut ranges = Ranges::new(4096);
        for bytes in [1, 4096, UNIT - 1, UNIT, UNIT + 1] {
            for page in [4096, 16_384, 65_536] {
                let range = take(&mut ranges, bytes);
                assert_eq!(range.offset % page, 0, "{range:?}");
                give_back(&mut ranges, range);
                take(&mut ranges, 1);
            }
        }
    }

    #[test]
    fn what_is_given_back_is_used_first() {
        let mut ranges = Ranges::new(UNIT);
        let [a, b, c, d] = [1, 2, 3, 4].map(|units| take(&mut ranges, units * UNIT));
        assert_eq!(d.offset, 7 * UNIT);
        give_back(&mut ranges, b);
        // Too long for the gap, then just right, then in front of what is left of it.
        assert_eq!(ranges.find(2 * UNIT + 1).offset, 11 * UNIT);
        assert_eq!(ranges.find(2 * UNIT).offset, b.offset);
        let small = take(&mut ranges, 5);
        assert_eq!(small.offset, b.offset);
        assert_eq!(ranges.find(UNIT).offset, b.offset + UNIT);
        // Adjacent ranges are merged, in any order.
        for range in [c, a, small] {
            give_back(&mut ranges, range);
        }
        assert_eq!(ranges.find(6 * UNIT).offset, UNIT);
        give_back(&mut ranges, d);
        assert_eq!((ranges.tail, ranges.free.len()), (UNIT, 0));
        assert!(ranges.used.is_empty());
    }

    #[test]
    fn no_two_overlap_whatever_comes_and_goes() {
        let mut ranges = Ranges::new(123_456);
        let mut live: Vec<Range> = Vec::new();
        for round in 0..5000_u64 {
            let random = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
            if live.len() > 20 {
                let which = usize::try_from(random).unwrap_or(0) % live.len();
                give_back(&mut ranges, live.swap_remove(which));
            }
            let range = take(&mut ranges, random % (9 * UNIT) + 1);
            let apart = |other: &Range| {
                range.offset + range.bytes <= other.offset
                    || other.offset + other.bytes <= range.offset
            };
            assert!(range.offset >= 123_456 && live.iter().all(apart));
            live.push(range);
        }
        // Room for 21 ranges of up to 9 units, and the gaps between them.
        assert!(ranges.tail < 400 * UNIT, "{}", ranges.tail);
        for range in live {
            give_back(&mut ranges, range);
        }
        assert_eq!(ranges.tail, 123_456_u64.next_multiple_of(UNIT));
    }
}
