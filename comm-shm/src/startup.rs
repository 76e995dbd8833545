//! Start-up: how the ranks of a job find each other, and nobody else.
//!
//! Rank 0 creates the segment without a name, fills in its header, locks it and only then links it
//! under the job's name: a segment that can be seen is complete. Only the holder of a file's lock
//! removes its name. The others open it, check it and claim their seat; once all have come, rank
//! 0 removes the name and lets all go, so that nothing is left behind whatever happens later. If rank 0
//! dies before that, those who wait for it take over its lock and remove the name.

mod gather;

use std::fs::File;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comm_kit::clock::Clock;
use comm_kit::interrupt;
use comm_kit::words::Lost;

use crate::cause::{Cause, Failure};
use crate::config::ShmConfig;
use crate::error::InitError;
use crate::identity::Identity;
use crate::layout::{Header, MEMBERS};
use crate::liveness::{Alive, Peers, creator_ended, is_settled};
use crate::mapping::Mapping;
use crate::name::{self, Found, Nameless};
use crate::process::Process;
use crate::processors;
use crate::remedy;
use crate::room;
use crate::sync::Ordering;

use gather::{CAME, member};

/// For how long a rank that failed to start tries to remove the names that are left: that long may
/// the kernel take to free the memory of rank 0, and with it the lock.
const SWEEP: Duration = Duration::from_millis(500);

/// What a rank has once the job has started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) file: File,
    pub(crate) map: Mapping,
    pub(crate) alive: Alive,
    pub(crate) peers: Peers,
}

/// Starts the job together with its other ranks; its segment has `bytes` bytes.
pub(crate) fn start(config: &ShmConfig, bytes: usize) -> Result<Started, InitError> {
    let clock = Clock::start();
    let mut start = Start {
        config,
        bytes,
        path: name::path(&config.name),
        deadline: clock.last().checked_add(config.connect_timeout),
        clock,
        own: Process::current(),
        pause: Duration::from_micros(20),
    };
    name::check_folder(&start.path)?;
    let (file, map, alive) = if config.rank == 0 {
        start.create()?
    } else {
        start.join()?
    };
    // The hook is asked on the way, and may panic: that leaves nothing behind either.
    let gathered = catch_unwind(AssertUnwindSafe(|| start.gather(&file, &map)));
    let failure = match gathered {
        Ok(Ok(peers)) => {
            return Ok(Started {
                file,
                map,
                alive,
                peers,
            });
        }
        Ok(Err(error)) => Ok(error),
        Err(panic) => {
            let verdict = &map.at::<Header>(0).verdict;
            Cause::lost(config.rank, Lost::PanickedInside).record(verdict, config.size);
            Err(panic)
        }
    };
    if config.rank == 0 {
        start.hide(&file);
    } else {
        start.sweep(&file);
    }
    match failure {
        Ok(error) => Err(error),
        Err(panic) => resume_unwind(panic),
    }
}

/// Why a rank stopped waiting for the others to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    TimeIsUp,
    Interrupted,
}

/// One rank on its way into the job.
struct Start<'a> {
    config: &'a ShmConfig,
    /// The bytes of the segment.
    bytes: usize,
    path: PathBuf,
    clock: Clock,
    /// `None` is for ever.
    deadline: Option<Instant>,
    own: Process,
    /// How long the next [`rest`](Self::rest) takes.
    pause: Duration,
}

impl Start<'_> {
    /// Creates the segment and links it under its name.
    fn create(&mut self) -> Result<(File, Mapping, Alive), InitError> {
        let bytes = self.bytes;
        let create = Nameless::create(&self.path);
        let file = create.map_err(|error| self.cannot("create", &error))?;
        room::reserve(file.as_file(), 0, bytes as u64).map_err(|reason| {
            let name = &self.config.name;
            let message = format!("cannot reserve segment {name:?}: {}", reason.message());
            InitError::failed(&[], message)
        })?;
        let map =
            Mapping::of(file.as_file(), 0, bytes).map_err(|error| self.cannot("map", &error))?;
        Identity::of(self.config, self.own).write(map.at(0));
        name::lock(file.as_file()).map_err(|error| self.cannot("lock", &error.into()))?;
        loop {
            match file.link(&self.path) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => self.displace()?,
                Err(error) => return Err(self.cannot("link", &error)),
            }
        }
        let file = file.into_file();
        match self.claim(&map) {
            Ok(alive) => Ok((file, map, alive)),
            Err(error) => {
                self.hide(&file);
                Err(error)
            }
        }
    }

    /// Returns the error of a rank that the system refused something.
    fn cannot(&self, what: &str, error: &io::Error) -> InitError {
        let ShmConfig {
            name, rank, size, ..
        } = self.config;
        let error = remedy::told(error);
        let message = format!("rank {rank} of {size} cannot {what} segment {name:?}: {error}");
        InitError::failed(&[], message)
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
        let stop = if creator_ended(identity.creator, &file) {
            self.rest().err()
        } else {
            Some(Stop::TimeIsUp)
        };
        match stop {
            None => Ok(()),
            Some(Stop::Interrupted) => Err(self.ended_early(self.config.rank, "was interrupted")),
            Some(Stop::TimeIsUp) => Err(InitError::invalid(
                &["COBRE_SHM_NAME"],
                format!(
                    "segment {:?} is in use by a job that process {pid} is starting; give each job \
                     a name of its own",
                    self.config.name
                ),
            )),
        }
    }

    /// Opens the segment that rank 0 creates, and claims this rank's seat in it.
    fn join(&mut self) -> Result<(File, Mapping, Alive), InitError> {
        let ShmConfig {
            name, size, rank, ..
        } = self.config;
        loop {
            if let Some(Found { file, identity }) = name::find(&self.path)?
                && !creator_ended(identity.creator, &file)
                && is_settled(&file)
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
                let map =
                    Mapping::of(&file, 0, bytes).map_err(|error| self.cannot("map", &error))?;
                let alive = self.claim(&map)?;
                return Ok((file, map, alive));
            }
            if let Err(stop) = self.rest() {
                if let Some(Found { file, .. }) = name::find(&self.path)? {
                    self.sweep(&file);
                }
                if stop == Stop::Interrupted {
                    return Err(self.ended_early(*rank, "was interrupted"));
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

    /// Takes this rank's seat, unless another process has it.
    fn claim(&self, map: &Mapping) -> Result<Alive, InitError> {
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
        processors::add(&map.at::<Header>(0).processors);
        let alive = Alive::start(&self.path, *rank).map_err(|error| {
            InitError::failed(
                &[],
                format!("rank {rank} of segment {name:?} cannot show that it lives: {error}"),
            )
        })?;
        member.ready.store(CAME, Ordering::Release);
        Ok(alive)
    }

    /// Removes all names of this start; the caller holds the lock of `file`.
    fn hide(&self, file: &File) {
        Alive::hide(&self.path, self.config.size);
        name::remove_if_linked(&self.path, file);
    }

    /// Removes all names of a start whose rank 0 has died, once the kernel has taken its lock away.
    fn sweep(&self, file: &File) {
        let mut clock = Clock::start();
        let until = clock.now() + SWEEP;
        while name::is_linked(file) && clock.now() < until {
            let ended = Identity::read(file).is_some_and(|it| creator_ended(it.creator, file));
            // With the lock in hand nobody else removes the name, nor puts another file under it.
            if ended && name::lock(file).is_ok() && name::is_linked(file) {
                self.hide(file);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Stops rank 0, which would wait for a rank that cannot come, and returns the error of this rank.
    fn wrong_size(&self, file: &File, identity: &Identity) -> InitError {
        let ShmConfig { rank, size, .. } = *self.config;
        if let Ok(map) = Mapping::of(file, 0, MEMBERS) {
            let failure = Failure::Differs(u32::try_from(size).unwrap_or(0));
            let verdict = &map.at::<Header>(0).verdict;
            Cause { rank, failure }.record(verdict, usize::MAX);
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

    /// Returns the error of a start that `rank` did not finish.
    fn ended_early(&self, rank: usize, how: &str) -> InitError {
        let ShmConfig { name, size, .. } = self.config;
        InitError::failed(
            &[],
            format!(
                "rank {rank} of {size} {how} while the ranks were attaching to segment {name:?}; see \
                 what it printed"
            ),
        )
    }

    /// Sleeps a little, longer each time.
    ///
    /// # Errors
    ///
    /// Once the time is up, or the hook asks this rank to stop.
    fn rest(&mut self) -> Result<(), Stop> {
        let now = self.clock.now();
        let left = self.deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(now)
        });
        let time = self.pause.min(left);
        std::thread::sleep(time);
        self.clock.waited(time);
        self.pause = (self.pause * 2).min(Duration::from_millis(1));
        if interrupt::requested() {
            Err(Stop::Interrupted)
        } else if left.is_zero() {
            Err(Stop::TimeIsUp)
        } else {
            Ok(())
        }
    }
}
