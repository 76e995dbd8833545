//! Start-up: how the ranks of a job find each other, and nobody else.
//!
//! Rank 0 makes the segment without a name, fills in its header, locks it and only then links it
//! under the job's name: a segment that can be seen is complete. Only the holder of a file's lock
//! removes its name. The others open it, check it and claim their place; once all have come, rank
//! 0 removes the name and says go, so that nothing is left behind whatever happens later. If rank 0
//! dies before that, those who wait for it take over its lock and remove the name.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use comm_api::FailureKind;

use crate::cause::{Cause, Reason};
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::identity::Identity;
use crate::layout::{self, GO, Header, MEMBERS, Member};
use crate::liveness::{Peers, Pulse, creator_ended};
use crate::name::{self, Found};
use crate::process::Process;
use crate::report;
use crate::room::{self, Short};
use crate::segment::Mapping;
use crate::sync::Ordering;

/// A rank has mapped the segment.
const CAME: u32 = 1;

/// A rank can tell whether each of the others lives.
const KNOWS_ALL: u32 = 2;

/// For how long a rank that failed to start sees to it that no name is left: that long may the kernel
/// take to free the memory of rank 0, and with it the lock.
const SWEEP: Duration = Duration::from_millis(500);

/// The file that the ranks of one job share, as one rank has it.
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
    _pulse: Pulse,
}

impl Segment {
    /// Joins the job, or fails within the time the configuration gives; all ranks give the same
    /// `slot`, the bytes of a slot.
    pub(crate) fn open(config: &ShmConfig, slot: usize) -> Result<Self, InitError> {
        config.check()?;
        let bytes = layout::segment(config.size, slot);
        let mut start = Start {
            config,
            bytes,
            path: name::path(&config.name),
            deadline: Instant::now() + config.connect_timeout,
            own: Process::current(),
            nap: Duration::from_micros(20),
        };
        let (file, map, pulse) = if config.rank == 0 {
            start.create()?
        } else {
            start.join()?
        };
        let gathered = start.gather(&file, &map);
        if gathered.is_err() {
            if config.rank == 0 {
                start.hide(&file);
            } else {
                start.sweep(&file);
            }
        }
        let peers = gathered?;
        Ok(Self {
            file,
            map: Arc::new(map),
            size: config.size,
            end: bytes as u64,
            tail: Mutex::new(bytes as u64),
            peers,
            _pulse: pulse,
        })
    }

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

    /// Gives where the ranges begin.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Reserves a range behind all others and gives its offset.
    pub(crate) fn extend(&self, bytes: u64) -> Result<u64, Short> {
        let mut tail = self.tail.lock().unwrap_or_else(PoisonError::into_inner);
        room::reserve(&self.file, *tail, bytes)?;
        let offset = *tail;
        *tail += bytes;
        Ok(offset)
    }

    /// Ends the job in the eyes of every rank.
    pub(crate) fn abort(&self, rank: usize, code: i32) {
        let cause = Cause {
            kind: FailureKind::Aborted,
            rank,
            code: code.cast_unsigned(),
        };
        cause.settle(&self.header().abort, self.size);
    }
}

/// One rank on its way into the job.
struct Start<'a> {
    config: &'a ShmConfig,
    /// The bytes of the segment.
    bytes: usize,
    path: PathBuf,
    deadline: Instant,
    own: Process,
    nap: Duration,
}

impl Start<'_> {
    /// Makes the segment and puts it under its name.
    fn create(&mut self) -> Result<(File, Mapping, Pulse), InitError> {
        let (bytes, name) = (self.bytes, &self.config.name);
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            InitError::failed(&[], format!("cannot {what} segment {name:?}: {error}"))
        };
        let file = name::nameless(&self.path).map_err(|error| failed("create", &error))?;
        room::reserve(file.as_file(), 0, bytes as u64)
            .map_err(|short| failed("reserve", &short.error(bytes)))?;
        let map = Mapping::of(file.as_file(), 0, bytes).map_err(|error| failed("map", &error))?;
        Identity::of(self.config, self.own).write(map.at(0));
        name::lock(file.as_file()).map_err(|error| failed("lock", &error))?;
        loop {
            match file.link(&self.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.displace()?,
                Err(error) => return Err(failed("link", &error)),
            }
        }
        let file = file.into_file();
        match self.claim(&map) {
            Ok(pulse) => Ok((file, map, pulse)),
            Err(error) => {
                self.hide(&file);
                Err(error)
            }
        }
    }

    /// Removes the segment of a job that is no more; that of a living one is an error.
    fn displace(&mut self) -> Result<(), InitError> {
        let Some(Found { file, identity }) = name::find(&self.path)? else {
            return Ok(());
        };
        if name::lock(&file).is_ok() {
            name::remove_if_linked(&self.path, &file);
            return Ok(());
        }
        let Process { pid, .. } = identity.creator;
        // A creator that is being taken down still holds its lock, until its memory is freed.
        if !creator_ended(identity.creator, &file) || !self.rest() {
            return Err(InitError::invalid(
                &["COBRE_SHM_NAME"],
                format!(
                    "segment {:?} is in use by a job that process {pid} is starting; give each job \
                     a name of its own",
                    self.config.name
                ),
            ));
        }
        Ok(())
    }

    /// Opens the segment that rank 0 makes, and claims this rank's place in it.
    fn join(&mut self) -> Result<(File, Mapping, Pulse), InitError> {
        let ShmConfig {
            name, size, rank, ..
        } = self.config;
        loop {
            if let Some(Found { file, identity }) = name::find(&self.path)?
                && !creator_ended(identity.creator, &file)
            {
                identity.check(self.config, self.own)?;
                if identity.size != *size as u64 {
                    return Err(self.wrong_size(&file, &identity));
                }
                let bytes = self.bytes;
                let length = file.metadata().map_or(0, |metadata| metadata.len());
                if length < bytes as u64 {
                    return Err(InitError::failed(
                        &[],
                        format!(
                            "segment {name:?} is cut short: {length} of {bytes} bytes; remove {}",
                            self.path.display()
                        ),
                    ));
                }
                let map = Mapping::of(&file, 0, bytes).map_err(|error| {
                    InitError::failed(&[], format!("cannot map segment {name:?}: {error}"))
                })?;
                let pulse = self.claim(&map)?;
                return Ok((file, map, pulse));
            }
            if !self.rest() {
                if let Some(Found { file, .. }) = name::find(&self.path)? {
                    self.sweep(&file);
                }
                return Err(InitError::failed(
                    &[],
                    format!(
                        "rank {rank} of {size} found no segment {name:?} within {:?}: rank 0 did not \
                     come; see what it printed, or raise COBRE_SHM_CONNECT_TIMEOUT_MS",
                        self.config.connect_timeout
                    ),
                ));
            }
        }
    }

    /// Takes this rank's place, unless another process has it.
    fn claim(&self, map: &Mapping) -> Result<Pulse, InitError> {
        let ShmConfig { name, rank, .. } = self.config;
        let member = member(map, *rank);
        let pid = u64::from(self.own.pid);
        let taken = member
            .pid
            .compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire);
        if let Err(other) = taken {
            return Err(InitError::invalid(
                &["COBRE_SHM_RANK"],
                format!(
                    "rank {rank} of segment {name:?} is taken by process {other}, this is process \
                     {pid}; give each process a rank of its own"
                ),
            ));
        }
        member.start.store(self.own.start, Ordering::Relaxed);
        let pulse = Pulse::start(&self.path, *rank).map_err(|error| {
            InitError::failed(
                &[],
                format!("rank {rank} of segment {name:?} cannot show that it lives: {error}"),
            )
        })?;
        member.ready.store(CAME, Ordering::Release);
        Ok(pulse)
    }

    /// Waits until all ranks have come and know each other, and agrees with them that they have.
    fn gather(&mut self, file: &File, map: &Mapping) -> Result<Peers, InitError> {
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
                known = Some(self.meet(map)?);
                member(map, rank).ready.store(KNOWS_ALL, Ordering::Release);
            }
            if rank == 0 && behind(KNOWS_ALL).is_empty() {
                // Before go: whoever is told to go leaves no name behind, even if killed at once.
                self.hide(file);
                let _ = verdict.compare_exchange(0, GO, Ordering::AcqRel, Ordering::Acquire);
            }
            // Loaded once: what is not go yet must not be taken for a cause when it is.
            let word = verdict.load(Ordering::Acquire);
            match (word, known.take()) {
                (GO, Some(peers)) => return Ok(peers),
                (_, peers) => known = peers,
            }
            if let Some(cause) = Cause::from_word(word, size) {
                return Err(self.stopped(cause, &missing));
            }
            let cause = if let Some(dead) = self.dead(map, known.as_ref()) {
                Some((FailureKind::PeerLost, dead, Reason::Ended.code()))
            } else if self.rest() {
                None
            } else {
                let late = missing.first().or(behind(KNOWS_ALL).first()).copied();
                Some((FailureKind::TimedOut, late.unwrap_or(0), 0))
            };
            if let Some((kind, rank, code)) = cause {
                // Unless the others decided meanwhile, which the next round reads.
                Cause { kind, rank, code }.settle(verdict, size);
            }
        }
    }

    /// Makes the acquaintance of all ranks that have come.
    fn meet(&self, map: &Mapping) -> Result<Peers, InitError> {
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

    /// Gives a rank that came and died.
    fn dead(&self, map: &Mapping, known: Option<&Peers>) -> Option<usize> {
        let size = self.config.size;
        let found;
        let peers = if let Some(peers) = known {
            peers
        } else {
            found = self.meet(map).ok()?;
            &found
        };
        (0..size).find(|&rank| peers.dead(rank))
    }

    /// Removes all names of this start; rank 0 does, which holds the lock.
    fn hide(&self, file: &File) {
        Pulse::hide(&self.path, self.config.size);
        name::remove_if_linked(&self.path, file);
    }

    /// Removes all names of a start whose rank 0 has died, once the kernel has taken its lock away.
    fn sweep(&self, file: &File) {
        let until = Instant::now() + SWEEP;
        while name::is_linked(file) && Instant::now() < until {
            let ended = Identity::read(file).is_some_and(|it| creator_ended(it.creator, file));
            // With the lock in hand nobody else removes the name, nor puts another file under it.
            if ended && name::lock(file).is_ok() && name::is_linked(file) {
                self.hide(file);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Tells rank 0, which waits for a rank that cannot come, and fails.
    fn wrong_size(&self, file: &File, identity: &Identity) -> InitError {
        let ShmConfig { rank, size, .. } = *self.config;
        if let Ok(map) = Mapping::of(file, 0, MEMBERS) {
            let kind = FailureKind::Mismatch;
            let code = u32::try_from(size).unwrap_or(0);
            let verdict = &map.at::<Header>(0).verdict;
            Cause { kind, rank, code }.settle(verdict, usize::MAX);
        }
        InitError::invalid(
            &["COBRE_SHM_SIZE"],
            format!(
                "COBRE_SHM_SIZE is {size} on rank {rank} and {} on rank 0 (process {}); give all \
                 ranks the same",
                identity.size, identity.creator.pid
            ),
        )
    }

    /// Puts into words why the start was stopped.
    fn stopped(&self, cause: Cause, missing: &[usize]) -> InitError {
        let ShmConfig {
            rank: own,
            size,
            name,
            ..
        } = self.config;
        let Cause { kind, rank, code } = cause;
        match kind {
            FailureKind::Mismatch => InitError::invalid(
                &["COBRE_SHM_SIZE"],
                format!(
                    "COBRE_SHM_SIZE is {size} on rank {own} and {code} on rank {rank}; give all \
                     ranks the same"
                ),
            ),
            FailureKind::TimedOut => {
                let missing = if missing.is_empty() { &[rank] } else { missing };
                InitError::failed(
                    &[],
                    format!(
                        "{} of {size} did not attach to segment {name:?} in time (rank {own} waited \
                     for up to {:?}); see what they printed, or raise COBRE_SHM_CONNECT_TIMEOUT_MS",
                        report::ranks(missing),
                        self.config.connect_timeout
                    ),
                )
            }
            _ => InitError::failed(
                &[],
                format!(
                    "rank {rank} of {size} ended while the ranks were attaching to segment {name:?}; \
                 see what it printed"
                ),
            ),
        }
    }

    /// Sleeps a little, longer each time; false once the time is up.
    fn rest(&mut self) -> bool {
        let left = self.deadline.saturating_duration_since(Instant::now());
        std::thread::sleep(self.nap.min(left));
        self.nap = (self.nap * 2).min(Duration::from_millis(1));
        !left.is_zero()
    }
}

fn member(map: &Mapping, rank: usize) -> &Member {
    map.at(MEMBERS + rank * size_of::<Member>())
}

/// Gives the process of a rank that has come; nobody's until then.
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
