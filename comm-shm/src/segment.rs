//! The file that the ranks of one job share.

pub(crate) mod identity;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod name;
pub(crate) mod ranges;
pub(crate) mod remedy;
pub(crate) mod room;

use std::fs::File;
use std::io;
use std::mem::offset_of;
use std::os::unix::fs::FileExt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use self::layout::{Header, PAGE, RANGE_ALIGN};
use self::mapping::Mapping;
use self::ranges::{Range, Ranges};
use self::room::NoRoom;
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::liveness::{Alive, Peers};
use crate::one_copy::foreign::Foreign;
use crate::protocol::cause::{Cause, Failure};
use crate::protocol::control::Control;
use crate::protocol::given_up;
use crate::startup::processors;
use crate::startup::{self, Started};

/// The segment of a job, as seen by one rank.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    map: Arc<Mapping>,
    size: usize,
    /// Where the ranges begin.
    end: u64,
    /// Only the leader allocates ranges.
    ranges: Mutex<Ranges>,
    peers: Peers,
    /// Where the memory of each rank is read; `None` if direct reading is off.
    foreign: Option<Vec<Foreign>>,
    _alive: Alive,
}

impl Segment {
    /// Joins the job, or fails within the configured time. `slot_bytes`, the size of a slot in bytes, is the
    /// same on all ranks.
    pub(crate) fn open(config: &ShmConfig, slot_bytes: usize) -> Result<Self, InitError> {
        config.check()?;
        let ShmConfig { rank, size, .. } = *config;
        let bytes = layout::segment(size, slot_bytes);
        let own = layout::own(size, slot_bytes, rank);
        let Started {
            file,
            map,
            alive,
            peers,
            foreign,
        } = startup::start(config, bytes, own)?;
        Ok(Self {
            file,
            map: Arc::new(map),
            size,
            end: bytes as u64,
            ranges: Mutex::new(Ranges::new(bytes as u64)),
            peers,
            foreign,
            _alive: alive,
        })
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        self.map.at(0)
    }

    /// Returns how many processors the ranks have together.
    pub(crate) fn processors(&self) -> usize {
        processors::count(&self.header().processors)
    }

    pub(crate) fn map(&self) -> &Arc<Mapping> {
        &self.map
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    pub(crate) fn peers(&self) -> &Peers {
        &self.peers
    }

    /// Returns where the memory of each rank is read; `None` if direct reading is off, which is the same on
    /// all ranks.
    #[inline]
    pub(crate) fn foreign(&self) -> Option<&[Foreign]> {
        self.foreign.as_deref()
    }

    /// Allocates a zeroed range of `bytes`, if there is room for it, and reserves its first `head` bytes, at
    /// least the first page.
    pub(crate) fn extend(&self, bytes: u64, head: u64) -> Result<Range, NoRoom> {
        let mut ranges = self.ranges();
        self.collect(&mut ranges);
        let range = ranges.find(bytes);
        room::lengthen(&self.file, range.offset, bytes)?;
        room::reserve(&self.file, range.offset, head.max(PAGE as u64))?;
        ranges.take(range);
        Ok(range)
    }

    /// Reserves the bytes `part` of a range, zeroed.
    pub(crate) fn reserve(
        &self,
        range: Range,
        part: &std::ops::Range<usize>,
    ) -> Result<(), NoRoom> {
        room::reserve(
            &self.file,
            range.offset + part.start as u64,
            part.len() as u64,
        )
    }

    /// Takes back all ranges that all ranks have released since the last call.
    fn collect(&self, ranges: &mut Ranges) {
        let mut offset = given_up::take_all(&self.header().given_up);
        // The values come from other processes, and are trusted only as far as they name ranges in use.
        while let Some(range) = ranges.remove(offset) {
            offset = self.below(range);
            self.take_back(ranges, range);
        }
    }

    /// Reads which range was released before this one: through the file, because mapping it costs more.
    fn below(&self, range: Range) -> u64 {
        let mut word = [0; 8];
        let at = range.offset + offset_of!(Control, below) as u64;
        let read = self.file.read_exact_at(&mut word, at);
        read.map_or(given_up::NONE, |()| u64::from_ne_bytes(word))
    }

    /// Takes back a range that no rank has used.
    pub(crate) fn withdraw(&self, range: Range) {
        let mut ranges = self.ranges();
        if let Some(range) = ranges.remove(range.offset) {
            self.take_back(&mut ranges, range);
        }
    }

    /// Makes a range available again, unless it cannot be emptied.
    fn take_back(&self, ranges: &mut Ranges, range: Range) {
        if room::release(&self.file, range.offset, range.bytes).is_ok() {
            ranges.give_back(range);
        }
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks a range that another rank offered: it is trusted only if the file agrees.
    pub(crate) fn check(&self, range: Range) -> io::Result<()> {
        let Range { offset, bytes } = range;
        let behind = offset >= self.end && offset.is_multiple_of(RANGE_ALIGN as u64);
        let length = self.file.metadata().map_or(0, |metadata| metadata.len());
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= length);
        if behind && inside {
            Ok(())
        } else {
            Err(io::Error::other(format!(
                "{bytes} bytes at {offset} were not reserved"
            )))
        }
    }

    /// Returns the memory of a range to the system, except its first page, which tells the leader what else
    /// was released.
    pub(crate) fn release(&self, range: Range, control: &Control) {
        let head = PAGE as u64;
        let rest = range.bytes.saturating_sub(head);
        if rest == 0 || room::release(&self.file, range.offset + head, rest).is_ok() {
            given_up::add(&self.header().given_up, &control.below, range.offset);
        }
    }

    /// Ends the job for every rank.
    pub(crate) fn abort(&self, rank: usize, code: i32) {
        let failure = Failure::Aborted(code);
        Cause { rank, failure }.record(&self.header().abort, self.size);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::collections::VecDeque;
    use std::time::{Duration, Instant};

    use super::*;

    fn alone(name: &str) -> Segment {
        let name = format!("cobre-unit-{}-{name}", std::process::id());
        Segment::open(&ShmConfig::new(name, 0, 1), 0).expect("attaches")
    }

    /// Returns the shortest time that allocating a range of one page takes.
    fn least(segment: &Segment) -> Duration {
        let extend = |_| {
            let began = Instant::now();
            segment.extend(PAGE as u64, 0).expect("there is room");
            began.elapsed()
        };
        (0..50).map(extend).min().unwrap_or_default()
    }

    #[test]
    fn a_range_costs_the_same_however_many_there_are() {
        let segment = alone("many");
        let few = least(&segment);
        for _ in 0..2000 {
            segment.extend(PAGE as u64, 0).expect("there is room");
        }
        let many = least(&segment);
        assert!(
            many < 10 * few,
            "{many:?} after 2000 ranges, {few:?} before"
        );
    }

    /// The oldest range is released and a new one allocated: the released one is found without looking at the
    /// others.
    #[test]
    fn a_range_that_was_given_up_costs_the_same_however_many_there_are() {
        let segment = alone("oldest");
        let mut live: VecDeque<Range> = VecDeque::new();
        let mut least = |live_at_once: usize| {
            let extend = || segment.extend(PAGE as u64, 0).expect("there is room");
            while live.len() < live_at_once {
                live.push_back(extend());
            }
            let exchange = |_| {
                let oldest = live.pop_front().expect("it lives");
                let map = Mapping::of(segment.file(), oldest.offset, PAGE).expect("it is mapped");
                segment.release(oldest, map.at(0));
                let began = Instant::now();
                live.push_back(extend());
                began.elapsed()
            };
            (0..50).map(exchange).min().unwrap_or_default()
        };
        let (few, many) = (least(2), least(2000));
        assert!(
            many < 10 * few,
            "{many:?} among 2000 ranges, {few:?} among 2"
        );
    }

    #[test]
    fn whatever_was_given_up_is_used_again() {
        let segment = alone("again");
        let ranges: Vec<Range> = (0..100)
            .map(|_| segment.extend(PAGE as u64, 0).expect("there is room"))
            .collect();
        let length = || segment.file().metadata().expect("it is open").len();
        let before = length();
        // In a scattered order, some of them before the next allocation.
        for some in [&[7, 3, 99][..], &[50], &[0, 1, 2, 98]] {
            for &range in some {
                let range: Range = ranges[range];
                let map = Mapping::of(segment.file(), range.offset, PAGE).expect("it is mapped");
                segment.release(range, map.at(0));
            }
            let mut given = some.to_vec();
            while !given.is_empty() {
                let range = segment.extend(PAGE as u64, 0).expect("there is room");
                given.retain(|&given| ranges[given] != range);
                assert_eq!(length(), before);
            }
        }
    }
}
