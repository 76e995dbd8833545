//! The file that the ranks of one job share.

use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cause::{Cause, Failure};
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::layout::{self, Header, PAGE};
use crate::liveness::{Alive, Peers};
use crate::mapping::Mapping;
use crate::room::{self, Short};
use crate::startup::{self, Started};

/// The segment of a job, as one rank has it.
#[derive(Debug)]
pub(crate) struct Segment {
    file: File,
    map: Arc<Mapping>,
    size: usize,
    /// Where the ranges begin.
    end: u64,
    /// Where the next range begins; only the leader hands out ranges.
    tail: Mutex<u64>,
    peers: Peers,
    _alive: Alive,
}

/// A range of the file, reserved until the last rank gives it up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
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
            tail: Mutex::new(bytes as u64),
            peers,
            _alive: alive,
        })
    }

    #[inline]
    pub(crate) fn header(&self) -> &Header {
        self.map.at(0)
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

    /// Reserves a range of `bytes` behind all others.
    pub(crate) fn extend(&self, bytes: u64) -> Result<Range, Short> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        let offset = *tail;
        room::reserve(&self.file, offset, bytes)?;
        *tail += bytes;
        Ok(Range { offset, bytes })
    }

    /// Checks a range that another rank offered: it is believed only if the file agrees.
    pub(crate) fn check(&self, range: Range) -> io::Result<()> {
        let Range { offset, bytes } = range;
        let behind = offset >= self.end && offset % PAGE as u64 == 0;
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

    /// Returns the memory of a range to the system.
    pub(crate) fn release(&self, range: Range) {
        room::release(&self.file, range.offset, range.bytes);
    }

    /// Ends the job for every rank.
    pub(crate) fn abort(&self, rank: usize, code: i32) {
        let failure = Failure::Aborted(code);
        Cause { rank, failure }.record(&self.header().abort, self.size);
    }
}
