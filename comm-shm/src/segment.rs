//! The file that the ranks of one job share.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cause::{Cause, Failure};
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::foreign::Foreign;
use crate::layout::{self, Control, Header, PAGE, RANGE_ALIGN, RELEASED};
use crate::liveness::{Alive, Peers};
use crate::mapping::Mapping;
use crate::processors;
use crate::ranges::{Range, Ranges};
use crate::room::{self, NoRoom};
use crate::startup::{self, Started};
use crate::sync::Ordering;

/// The segment of a job, as one rank has it.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    map: Arc<Mapping>,
    size: usize,
    /// Where the ranges begin.
    end: u64,
    /// Only the leader hands out ranges.
    pool: Mutex<Pool>,
    peers: Peers,
    /// Where the memory of each rank is read; `None` if it is not.
    foreign: Option<Vec<Foreign>>,
    _alive: Alive,
}

/// The ranges that the leader hands out.
#[derive(Debug)]
struct Pool {
    ranges: Ranges,
    /// How many it took back after all ranks had given them up.
    collected: u64,
}

impl Segment {
    /// Joins the job, or fails within the time the configuration allows; `slot_bytes`, the bytes of
    /// a slot, is the same on all ranks.
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
            pool: Mutex::new(Pool {
                ranges: Ranges::new(bytes as u64),
                collected: 0,
            }),
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

    /// Returns where the memory of each rank is read; `None` if it is not, on any rank.
    #[inline]
    pub(crate) fn foreign(&self) -> Option<&[Foreign]> {
        self.foreign.as_deref()
    }

    /// Finds a range of `bytes`, zeroed, if there is room for it, and reserves its first `head` bytes; the first page at least.
    pub(crate) fn extend(&self, bytes: u64, head: u64) -> Result<Range, NoRoom> {
        let mut pool = self.pool();
        self.collect(&mut pool);
        let range = pool.ranges.find(bytes);
        room::lengthen(&self.file, range.offset, bytes)?;
        // Before it is handed out: whoever looks for its mark reads the first page.
        room::reserve(&self.file, range.offset, head.max(PAGE as u64))?;
        pool.ranges.take(range);
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

    /// Takes back what all ranks have given up. Looking at a range costs a mapping, so as few as possible are looked at.
    fn collect(&self, pool: &mut Pool) {
        // Acquire: what is counted is marked.
        let given_up = self.header().given_up.load(Ordering::Acquire);
        if pool.collected >= given_up {
            return;
        }
        // The last first: what comes and goes was handed out lately.
        for range in pool.ranges.used().to_vec().into_iter().rev() {
            if self.is_released(range) && self.take_back(&mut pool.ranges, range) {
                pool.collected += 1;
                if pool.collected >= given_up {
                    return;
                }
            }
        }
    }

    /// Takes back a range that no rank has used.
    pub(crate) fn withdraw(&self, range: Range) {
        self.take_back(&mut self.pool().ranges, range);
    }

    /// Returns whether the range may be used again: not where it cannot be emptied.
    fn take_back(&self, ranges: &mut Ranges, range: Range) -> bool {
        let emptied = room::release(&self.file, range.offset, range.bytes).is_ok();
        if emptied {
            ranges.give_back(range);
        }
        emptied
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether all ranks have given up a range and its memory is returned.
    fn is_released(&self, range: Range) -> bool {
        // Acquire: whoever returned the memory has done so.
        Mapping::of(&self.file, range.offset, PAGE)
            .is_ok_and(|map| map.at::<Control>(0).released.load(Ordering::Acquire) == RELEASED)
    }

    /// Checks a range that another rank offered: it is believed only if the file agrees.
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

    /// Returns the memory of a range to the system, all but its first page; that keeps the mark by which the leader
    /// finds out.
    pub(crate) fn release(&self, range: Range, control: &Control) {
        let head = PAGE as u64;
        let rest = range.bytes.saturating_sub(head);
        let released = rest == 0 || room::release(&self.file, range.offset + head, rest).is_ok();
        if released {
            // Release, and last: from here on the leader may give the range to somebody else.
            control.released.store(RELEASED, Ordering::Release);
            self.header().given_up.fetch_add(1, Ordering::Release);
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
    use std::time::{Duration, Instant};

    use super::*;

    fn alone(name: &str) -> Segment {
        let name = format!("cobre-unit-{}-{name}", std::process::id());
        Segment::open(&ShmConfig::new(name, 0, 1), 0).expect("attaches")
    }

    /// Returns the least time that a range of one page takes.
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

    #[test]
    fn whatever_was_given_up_is_used_again() {
        let segment = alone("again");
        let ranges: Vec<Range> = (0..100)
            .map(|_| segment.extend(PAGE as u64, 0).expect("there is room"))
            .collect();
        let length = || segment.file().metadata().expect("it is open").len();
        let before = length();
        // In an order of their own, some of them before the next is asked for.
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
