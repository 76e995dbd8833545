//! The file that the ranks of one job share.

use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use comm_api::FailureKind;

use crate::cause::Cause;
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::layout::{self, Header};
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

    /// Returns where the ranges begin.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Reserves a range behind all others and returns its offset.
    pub(crate) fn extend(&self, bytes: u64) -> Result<u64, Short> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        room::reserve(&self.file, *tail, bytes)?;
        let offset = *tail;
        *tail += bytes;
        Ok(offset)
    }

    /// Ends the job for every rank.
    pub(crate) fn abort(&self, rank: usize, code: i32) {
        let cause = Cause {
            kind: FailureKind::Aborted,
            rank,
            code: code.cast_unsigned(),
        };
        cause.record(&self.header().abort, self.size);
    }
}
