//! The file that the ranks of one job share.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cause::{Cause, Failure};
use crate::config::ShmConfig;
use crate::error::InitError;
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
    ranges: Mutex<Ranges>,
    peers: Peers,
    _alive: Alive,
}

impl Segment {
    /// Joins the job, or fails within the time the configuration allows; `slot_bytes`, the bytes of
    /// a slot, is the same on all ranks.
    pub(crate) fn open(config: &ShmConfig, slot_bytes: usize) -> Result<Self, InitError> {
        config.check()?;
        let bytes = layout::segment(config.size, slot_bytes);
        let Started {
            file,
            map,
            alive,
            peers,
        } = startup::start(config, bytes)?;
        Ok(Self {
            file,
            map: Arc::new(map),
            size: config.size,
            end: bytes as u64,
            ranges: Mutex::new(Ranges::new(bytes as u64)),
            peers,
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

    /// Reserves a range of `bytes`, zeroed.
    pub(crate) fn extend(&self, bytes: u64) -> Result<Range, NoRoom> {
        let mut ranges = self.ranges();
        for range in ranges.used().to_vec() {
            if self.is_released(range) {
                self.take_back(&mut ranges, range);
            }
        }
        let range = ranges.find(bytes);
        room::reserve(&self.file, range.offset, bytes)?;
        ranges.take(range);
        Ok(range)
    }

    /// Takes back a range that no rank has used.
    pub(crate) fn withdraw(&self, range: Range) {
        self.take_back(&mut self.ranges(), range);
    }

    fn take_back(&self, ranges: &mut Ranges, range: Range) {
        // Where it cannot be emptied it is not used again.
        if room::release(&self.file, range.offset, range.bytes).is_ok() {
            ranges.give_back(range);
        }
    }

    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
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
        }
    }

    /// Ends the job for every rank.
    pub(crate) fn abort(&self, rank: usize, code: i32) {
        let failure = Failure::Aborted(code);
        Cause { rank, failure }.record(&self.header().abort, self.size);
    }
}
