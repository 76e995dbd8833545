//! The second half of start-up: all ranks have come, and agree that they have.

use std::fs::File;

use comm_kit::words::{self, Lost};

use super::{Start, Stop};
use crate::cause::{Cause, Failure};
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::layout::{GO, Header, MEMBERS, Member};
use crate::liveness::Peers;
use crate::mapping::Mapping;
use crate::process::Process;
use crate::sync::Ordering;

/// A rank has mapped the segment.
pub(super) const CAME: u32 = 1;

/// A rank can find out whether each of the others lives.
const KNOWS_ALL: u32 = 2;

impl Start<'_> {
    /// Waits until all ranks have come and know each other, and agrees with them that they have.
    pub(super) fn gather(&mut self, file: &File, map: &Mapping) -> Result<Peers, InitError> {
        let ShmConfig { rank, size, .. } = *self.config;
        let verdict = &map.at::<Header>(0).verdict;
        let mut known = None;
        loop {
            let behind = |stage: u32| -> Vec<usize> {
                let ready = |rank: usize| member(map, rank).ready.load(Ordering::Acquire);
                (0..size).filter(|&rank| ready(rank) < stage).collect()
            };
            let missing = behind(CAME);
            if known.is_none() && missing.is_empty() {
                known = Some(self.find_peers(map)?);
                member(map, rank).ready.store(KNOWS_ALL, Ordering::Release);
            }
            if rank == 0 && behind(KNOWS_ALL).is_empty() {
                // Before GO: once a rank may go, no name is left, even if all are killed at once.
                self.hide(file);
                let _ = verdict.compare_exchange(0, GO, Ordering::AcqRel, Ordering::Acquire);
            }
            // Loaded once: a word that was not GO yet must not be read as a cause after it became GO.
            let word = verdict.load(Ordering::Acquire);
            match (word, known.take()) {
                (GO, Some(peers)) => return Ok(peers),
                (_, peers) => known = peers,
            }
            if let Some(cause) = Cause::from_word(word, size) {
                return Err(self.stopped(cause, &missing));
            }
            let cause = if let Some(dead) = self.dead(map, known.as_ref()) {
                Cause::lost(dead, Lost::Ended)
            } else {
                let (rank, failure) = match self.rest() {
                    Ok(()) => continue,
                    Err(Stop::Interrupted) => (rank, Failure::Interrupted),
                    Err(Stop::TimeIsUp) => {
                        let late = missing.first().or(behind(KNOWS_ALL).first()).copied();
                        (late.unwrap_or(0), Failure::Absent(0))
                    }
                };
                Cause { rank, failure }
            };
            // Unless the others decided meanwhile, which the next round reads.
            cause.record(verdict, size);
        }
    }

    /// Finds the processes of all ranks that have come.
    fn find_peers(&self, map: &Mapping) -> Result<Peers, InitError> {
        let ranks: Vec<Process> = (0..self.config.size)
            .map(|rank| process_of(member(map, rank)))
            .collect();
        Peers::find(&self.path, &ranks).map_err(|error| {
            InitError::failed(
                &[],
                format!(
                    "cannot watch the ranks of segment {:?}: {error}",
                    self.config.name
                ),
            )
        })
    }

    /// Returns a rank that came and died.
    fn dead(&self, map: &Mapping, known: Option<&Peers>) -> Option<usize> {
        let size = self.config.size;
        let found;
        let peers = if let Some(peers) = known {
            peers
        } else {
            found = self.find_peers(map).ok()?;
            &found
        };
        (0..size).find(|&rank| peers.dead(rank))
    }

    /// Returns the error of a start that was stopped by `cause`.
    fn stopped(&self, cause: Cause, missing: &[usize]) -> InitError {
        let ShmConfig {
            rank: own,
            size,
            name,
            ..
        } = self.config;
        let Cause { rank, failure } = cause;
        match failure {
            Failure::Differs(other) => InitError::invalid(
                &["COBRE_SHM_SIZE"],
                format!(
                    "COBRE_SHM_SIZE is {size} on rank {own} and {other} on rank {rank}; give all \
                     ranks the same"
                ),
            ),
            Failure::Absent(_) => {
                let missing = if missing.is_empty() { &[rank] } else { missing };
                InitError::failed(
                    &[],
                    format!(
                        "{} of {size} did not attach to segment {name:?} in time (rank {own} waited \
                     for up to {:?}); see what they printed, or raise COBRE_SHM_CONNECT_TIMEOUT_MS",
                        words::ranks(missing),
                        self.config.connect_timeout
                    ),
                )
            }
            Failure::Interrupted => self.ended_early(rank, "was interrupted"),
            Failure::Lost(Lost::PanickedInside) => self.ended_early(rank, "panicked"),
            _ => self.ended_early(rank, "ended"),
        }
    }
}

pub(super) fn member(map: &Mapping, rank: usize) -> &Member {
    map.at(MEMBERS + rank * size_of::<Member>())
}

/// Returns the process of a rank that has come; nobody's until then.
fn process_of(member: &Member) -> Process {
    let came = member.ready.load(Ordering::Acquire) >= CAME;
    let pid = if came {
        member.pid.load(Ordering::Relaxed)
    } else {
        0
    };
    Process {
        pid: u32::try_from(pid).unwrap_or(0),
        start: member.start.load(Ordering::Relaxed),
        namespace: 0,
    }
}
