//! The second half of start-up: all ranks have attached, and agree that they have.
//!
//! A waiting rank sleeps until all ranks have reached the next stage or the verdict is written, and checks
//! now and then whether the others live: with hundreds of ranks on a few processors, these checks would
//! dominate the start.

use std::fs::File;

use comm_kit::clock;
use comm_kit::report;
use comm_kit::words::{self, Lost};

use super::{EACH, Start, Stop};
use crate::config::{MOST_RANKS, ShmConfig};
use crate::error::InitError;
use crate::liveness::process::Process;
use crate::liveness::round;
use crate::liveness::{Peers, has_left};
use crate::one_copy;
use crate::one_copy::foreign::Foreign;
use crate::protocol::cause::{Cause, Failure};
use crate::protocol::sync::{Ordering, POLLING, fence};
use crate::protocol::wait::LOOK;
use crate::segment::layout::{GO, Header, MEMBERS, Member};
use crate::segment::mapping::Mapping;

/// A rank has mapped the segment.
pub(super) const CAME: u32 = 1;

/// A rank can check whether each of the others lives.
const KNOWS_ALL: u32 = 2;

impl Start<'_> {
    /// Waits until all ranks have attached and know each other, and agrees with them on that.
    pub(super) fn gather(&mut self, file: &File, map: &Mapping) -> Result<Peers, InitError> {
        let ShmConfig { rank, size, .. } = *self.config;
        let header = map.at::<Header>(0);
        let verdict = &header.verdict;
        let mut known = None;
        loop {
            // Read before the state that it counts: any later event ends the sleep below.
            let news = header.news.load(Ordering::Acquire);
            let missing = behind(map, size, CAME);
            if known.is_none() && missing.is_empty() {
                known = Some(self.find_peers(map)?);
                let offered = (0..size).map(|rank| one_copy::offered(member(map, rank)));
                let reads = one_copy::reads_all(offered, self.config.one_copy);
                let place = &member(map, rank).reads;
                place.store(reads.into(), Ordering::Relaxed);
                reach(map, rank, size, KNOWS_ALL);
            }
            if rank == 0 && known.is_some() && behind(map, size, KNOWS_ALL).is_empty() {
                let reads = |rank| member(map, rank).reads.load(Ordering::Relaxed) == 1;
                let all = (0..size).all(reads);
                header.one_copy.store(all.into(), Ordering::Relaxed);
                // Before GO: once a rank may go, no name is left, even if all ranks are killed at once.
                self.hide(file);
                let _ = verdict.compare_exchange(0, GO, Ordering::AcqRel, Ordering::Acquire);
                announce(header);
            }
            // Loaded once: a word read first as not yet GO must not be decoded as a cause after it became GO.
            let word = verdict.load(Ordering::Acquire);
            match (word, known.take()) {
                (GO, Some(peers)) => return Ok(peers),
                (_, peers) => known = peers,
            }
            // A rank that was started with another size may have a number beyond this one.
            if let Some(cause) = Cause::from_word(word, MOST_RANKS) {
                return Err(self.stopped(cause, &missing));
            }
            let cause = if let Some(dead) = self.dead(map, known.as_ref()) {
                Cause::lost(dead, Lost::Ended)
            } else {
                let rested = if POLLING {
                    self.rest()
                } else {
                    let time = clock::sleep_limit(Some(self.look_interval()));
                    self.rest_by(time, |time| header.news.sleep(news, time))
                };
                let (rank, failure) = match rested {
                    Ok(()) => continue,
                    Err(Stop::Interrupted) => (rank, Failure::Interrupted),
                    Err(Stop::TimeIsUp) => {
                        let late = missing.first().copied();
                        let late = late.or(behind(map, size, KNOWS_ALL).first().copied());
                        (late.unwrap_or(0), Failure::Absent(0))
                    }
                };
                Cause { rank, failure }
            };
            // Unless the others decided meanwhile, which the next round reads.
            cause.record(verdict, size);
            announce(header);
        }
    }

    /// Finds the processes of all ranks, which have attached.
    fn find_peers(&self, map: &Mapping) -> Result<Peers, InitError> {
        let ranks = (0..self.config.size).map(|rank| process_of(member(map, rank)));
        Peers::find(&self.path, ranks.collect()).map_err(|error| {
            InitError::failed(
                &[],
                format!(
                    "cannot watch the ranks of segment {:?}: {error}",
                    self.config.name
                ),
            )
        })
    }

    /// Returns a rank that took its seat and died, if it is time to check and this rank's share shows one.
    fn dead(&mut self, map: &Mapping, known: Option<&Peers>) -> Option<usize> {
        let ShmConfig { rank, size, .. } = *self.config;
        let now = self.clock.now();
        if self.next_look.is_some_and(|next| now < next) {
            return None;
        }
        self.next_look = Some(now + self.look_interval());
        let came = size - behind(map, size, CAME).len();
        let mut share = round::share(&map.at::<Header>(0).turn, size, came);
        share.find(|&other| {
            let process = process_of(member(map, other));
            let seated = other != rank && process.pid != 0;
            seated
                && match known {
                    Some(peers) => peers.dead(other),
                    None => has_left(&self.path, other, process),
                }
        })
    }

    /// Returns how often to check whether the others live: the more ranks there are, the more of them check.
    fn look_interval(&self) -> std::time::Duration {
        LOOK.max(2 * EACH * self.ranks())
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
        report::start_failed(Some(rank));
        match failure {
            Failure::Differs(other) => InitError::invalid(
                &["COBRE_SHM_SIZE"],
                format!(
                    "COBRE_SHM_SIZE is {size} on rank {own} and {other} on rank {rank}; set the \
                     same value on all ranks"
                ),
            ),
            Failure::Absent(_) => {
                let missing = if missing.is_empty() { &[rank] } else { missing };
                InitError::failed(
                    &[],
                    format!(
                        "{} of {size} did not attach to segment {name:?} in time (rank {own} waited \
                         for up to {:?}); see what they printed (ranks of another user or with another \
                         COBRE_JOB_ID belong to another job), or increase COBRE_SHM_CONNECT_TIMEOUT_MS",
                        words::ranks(missing),
                        self.config.connect_timeout
                    ),
                )
            }
            Failure::Unattached => InitError::failed(
                &[],
                format!(
                    "rank {rank} of {size} could not attach to segment {name:?}; see what it printed"
                ),
            ),
            Failure::Interrupted => self.ended_early(rank, "was interrupted"),
            Failure::Lost(Lost::PanickedInside) => self.ended_early(rank, "panicked"),
            _ => self.ended_early(rank, "ended"),
        }
    }
}

/// Returns where the memory of each rank is read, if rank 0 found before the signal to go that all ranks can
/// read all.
pub(super) fn foreign(map: &Mapping, size: usize) -> Option<Vec<Foreign>> {
    let all = map.at::<Header>(0).one_copy.load(Ordering::Relaxed) == 1;
    all.then(|| (0..size).map(|rank| one_copy::offered(member(map, rank))))?
        .collect()
}

pub(super) fn member(map: &Mapping, rank: usize) -> &Member {
    map.at(MEMBERS + rank * size_of::<Member>())
}

/// Returns the process that took a seat; one without a pid while the seat is free.
fn process_of(member: &Member) -> Process {
    Process::of_seat(member.seat.load(Ordering::Acquire))
}

/// Returns the ranks that have not reached a stage.
fn behind(map: &Mapping, size: usize, stage: u32) -> Vec<usize> {
    let ready = |rank: usize| member(map, rank).ready.load(Ordering::Acquire);
    (0..size).filter(|&rank| ready(rank) < stage).collect()
}

/// Advances this rank to a stage; the last rank notifies the others.
pub(super) fn reach(map: &Mapping, rank: usize, size: usize, stage: u32) {
    member(map, rank).ready.store(stage, Ordering::Release);
    // Of two ranks that arrive at the same time, at least one sees the other.
    fence(Ordering::SeqCst);
    if behind(map, size, stage).is_empty() {
        announce(map.at(0));
    }
}

/// Wakes all ranks that wait for the start, which then look for news.
pub(super) fn announce(header: &Header) {
    header.news.fetch_add(1, Ordering::Release);
    header.news.wake_all();
}
