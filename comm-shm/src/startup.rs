//! Start-up: how the ranks of a job, and no other processes, find each other.
//!
//! Rank 0 creates the segment without a name, locks it, fills in its header and only then links it under the
//! job's name: a segment that can be seen is complete. Only the holder of a file's lock removes its name. The
//! other ranks open the segment, check it and claim their seat. Once all have attached, rank 0 removes the
//! name and gives the signal to go, so that nothing is left behind whatever happens later. If rank 0 dies
//! before that, the waiting ranks take over its lock and remove the name.

mod gather;
pub(crate) mod processors;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comm_kit::clock::Clock;
use comm_kit::interrupt;
use comm_kit::words::Lost;

use crate::config::ShmConfig;
use crate::error::InitError;
use crate::liveness::process::{Origin, Process};
use crate::liveness::{Alive, Peers, creator_ended, creator_lives};
use crate::one_copy;
use crate::one_copy::foreign::Foreign;
use crate::protocol::cause::{Cause, Failure};
use crate::protocol::sync::Ordering;
use crate::protocol::wait::LOOK;
use crate::segment::identity::Identity;
use crate::segment::layout::{Header, MEMBERS};
use crate::segment::mapping::Mapping;
use crate::segment::name::{self, Found, Nameless};
use crate::segment::remedy;
use crate::segment::room::{self, NoRoom};

use gather::{CAME, announce, member, reach};

/// How long a rank that failed to start keeps trying to remove the remaining names: the kernel may take that
/// long to free the memory of rank 0, and with it the lock.
const SWEEP: Duration = Duration::from_millis(500);

/// How much longer a rank waits between two looks, for each rank that may do the same.
const EACH: Duration = Duration::from_micros(50);

/// The state of a rank once the job has started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) file: File,
    pub(crate) map: Mapping,
    pub(crate) alive: Alive,
    pub(crate) peers: Peers,
    /// Where the memory of each rank is read; `None` if direct reading is off, which is the same on all
    /// ranks.
    pub(crate) foreign: Option<Vec<Foreign>>,
}

/// Starts the job together with its other ranks. The segment has `bytes` bytes, of which this rank reserves
/// `own`.
pub(crate) fn start(
    config: &ShmConfig,
    bytes: usize,
    own: Range<usize>,
) -> Result<Started, InitError> {
    let clock = Clock::start();
    let mut start = Start {
        config,
        bytes,
        part: own,
        path: name::path(&config.name),
        deadline: clock.last().checked_add(config.connect_timeout),
        clock,
        own: Origin::current(),
        pause: Duration::from_micros(20),
        next_look: None,
    };
    name::check_folder(&start.path)?;
    let (file, map, alive) = if config.rank == 0 {
        start.create()?
    } else {
        start.join()?
    };
    // The hook is called on the way and may panic; even then nothing is left behind.
    let gathered = catch_unwind(AssertUnwindSafe(|| start.gather(&file, &map)));
    let failure = match gathered {
        Ok(Ok(peers)) => {
            return Ok(Started {
                foreign: gather::foreign(&map, config.size),
                file,
                map,
                alive,
                peers,
            });
        }
        // Whatever the error is, the others do not wait for this rank, unless the error came from them.
        Ok(Err(error)) => {
            start.give_up(map.at(0), Failure::Unattached);
            Ok(error)
        }
        Err(panic) => {
            start.give_up(map.at(0), Failure::Lost(Lost::PanickedInside));
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

/// Why a rank stopped waiting for the others to attach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    TimeIsUp,
    Interrupted,
}

/// One rank while it joins the job.
struct Start<'a> {
    config: &'a ShmConfig,
    /// The bytes of the segment.
    bytes: usize,
    /// The bytes of the segment that this rank reserves.
    part: Range<usize>,
    path: PathBuf,
    clock: Clock,
    /// `None` means no timeout.
    deadline: Option<Instant>,
    own: Origin,
    /// How long the next [`rest`](Self::rest) takes.
    pause: Duration,
    /// When to check next whether the others live.
    next_look: Option<Instant>,
}

impl Start<'_> {
    /// Creates the segment and links it under its name.
    fn create(&mut self) -> Result<(File, Mapping, Alive), InitError> {
        let bytes = self.bytes;
        let create = Nameless::create(&self.path);
        let file = create.map_err(|error| self.cannot("create", &error))?;
        room::lengthen(file.as_file(), 0, bytes as u64)
            .and_then(|()| self.reserve(file.as_file()))
            .map_err(|reason| InitError::failed(&[], self.no_room(reason)))?;
        let map =
            Mapping::of(file.as_file(), 0, bytes).map_err(|error| self.cannot("map", &error))?;
        // The lock comes first: a segment with a name, even a temporary one, and without a lock is removed as
        // stale.
        name::lock(file.as_file()).map_err(|error| self.cannot("lock", &error.into()))?;
        Identity::of(self.config, self.own).write(map.at(0));
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
                self.give_up(map.at(0), Failure::Unattached);
                self.hide(&file);
                Err(error)
            }
        }
    }

    /// Reserves what this rank will write, before the rank counts as attached: no page is accessed before it
    /// is reserved.
    fn reserve(&self, file: &File) -> Result<(), NoRoom> {
        room::reserve(file, self.part.start as u64, self.part.len() as u64)
    }

    /// Returns the message for a segment, or a part of it, for which there is no room.
    fn no_room(&self, reason: NoRoom) -> String {
        let ShmConfig {
            name, rank, size, ..
        } = self.config;
        let reason = reason.message(*rank);
        if *rank == 0 {
            format!("cannot reserve segment {name:?}: {reason}")
        } else {
            format!("rank {rank} of {size} cannot reserve its part of segment {name:?}: {reason}")
        }
    }

    /// Returns the error of a rank whose system call failed.
    fn cannot(&self, what: &str, error: &io::Error) -> InitError {
        let ShmConfig {
            name, rank, size, ..
        } = self.config;
        let error = remedy::told(error);
        let message = format!("rank {rank} of {size} cannot {what} segment {name:?}: {error}");
        InitError::failed(&[], message)
    }

    /// Removes the segment of a dead job; that of a living job is an error.
    fn displace(&mut self) -> Result<(), InitError> {
        let Some(Found { file, identity }) = name::find(&self.path)? else {
            return Ok(());
        };
        if name::lock(&file).is_ok() {
            name::remove_if_named(&self.path, &file);
            return Ok(());
        }
        let Process { pid, .. } = identity.creator.process;
        // A creator that is being terminated still holds its lock, until its memory is freed.
        let stop = if creator_ended(&self.own, &identity.creator, &file) {
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
                     its own name",
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
                && creator_lives(&self.own, &identity.creator, &self.path, &file)
            {
                return self.enter(file, &identity);
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
                        "rank {rank} of {size} found no segment {name:?} within {:?}: rank 0 did not create \
                         it; see what rank 0 printed, or increase COBRE_SHM_CONNECT_TIMEOUT_MS",
                        self.config.connect_timeout
                    ),
                ));
            }
        }
    }

    /// Maps the segment of this rank's job, and claims its seat. Notifies the other ranks if it cannot.
    fn enter(&self, file: File, identity: &Identity) -> Result<(File, Mapping, Alive), InitError> {
        // Before anything is written: the segment of another job is left alone.
        identity.check_job(self.config)?;
        let (bytes, ShmConfig { name, size, .. }) = (self.bytes, self.config);
        let length = file.metadata().map_or(0, |metadata| metadata.len());
        // Mapping the whole segment may be what fails, and accessing a truncated file would be fatal.
        let give_up = |failure: Failure| {
            if length >= MEMBERS as u64
                && let Ok(map) = Mapping::of(&file, 0, MEMBERS)
            {
                self.give_up(map.at(0), failure);
            }
        };
        if let Err(error) = identity.check(self.config, &self.own) {
            give_up(Failure::Unattached);
            return Err(error);
        }
        if identity.size != *size as u64 {
            give_up(Failure::Differs(u32::try_from(*size).unwrap_or(0)));
            return Err(self.wrong_size(identity));
        }
        let map = if length < bytes as u64 {
            Err(format!(
                "segment {name:?} is truncated: {length} of {bytes} bytes; remove {}",
                self.path.display()
            ))
        } else {
            let map = Mapping::of(&file, 0, bytes).map_err(|error| {
                format!(
                    "cannot map the {bytes} bytes of segment {name:?}: {error}; check the limits of this rank \
                     (ulimit -v, vm.max_map_count)"
                )
            });
            map.and_then(|map| match self.reserve(&file) {
                Ok(()) => Ok(map),
                Err(reason) => Err(self.no_room(reason)),
            })
        };
        let map = map.map_err(|message| {
            give_up(Failure::Unattached);
            InitError::failed(&[], message)
        })?;
        let alive = self.claim(&map)?;
        Ok((file, map, alive))
    }

    /// Takes this rank's seat, unless another process has it.
    fn claim(&self, map: &Mapping) -> Result<Alive, InitError> {
        let ShmConfig { name, rank, .. } = self.config;
        let seat = &member(map, *rank).seat;
        let taken = |other: u64| {
            let (other, own) = (Process::of_seat(other).pid, self.own.process.pid);
            InitError::invalid(
                &["COBRE_SHM_RANK"],
                format!(
                    "rank {rank} of segment {name:?} is taken by process {other}, this is process \
                     {own}; give each process its own rank"
                ),
            )
        };
        // Before the seat: a process that finds it taken may check at once whether its owner lives.
        let alive = match Alive::start(&self.path, *rank) {
            Ok(alive) => alive,
            Err(_) if seat.load(Ordering::Acquire) != 0 => {
                return Err(taken(seat.load(Ordering::Acquire)));
            }
            Err(error) => {
                self.give_up(map.at(0), Failure::Unattached);
                return Err(InitError::failed(
                    &[],
                    format!(
                        "rank {rank} of segment {name:?} cannot set up its sign of life: {error}"
                    ),
                ));
            }
        };
        let own = self.own.process.seat();
        match seat.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => {
                processors::add(&map.at::<Header>(0).processors);
                one_copy::offer(member(map, *rank), self.config.one_copy, self.config.size);
                reach(map, *rank, self.config.size, CAME);
                Ok(alive)
            }
            Err(other) => Err(taken(other)),
        }
    }

    /// Ends the start on all ranks because of this rank, unless the start has already been decided.
    fn give_up(&self, header: &Header, failure: Failure) {
        let rank = self.config.rank;
        Cause { rank, failure }.record(&header.verdict, usize::MAX);
        announce(header);
    }

    /// Removes all names of this start; the caller holds the lock of `file`.
    fn hide(&self, file: &File) {
        Alive::hide(&self.path, self.config.size);
        name::remove_if_named(&self.path, file);
    }

    /// Removes all names of a start whose rank 0 has died, once the kernel has released its lock.
    fn sweep(&self, file: &File) {
        let mut clock = Clock::start();
        let until = clock.now() + SWEEP;
        while name::is_named(&self.path, file) && clock.now() < until {
            let ended = Identity::read(file)
                .is_some_and(|identity| creator_ended(&self.own, &identity.creator, file));
            // While this process holds the lock, no other process removes the name, or puts another file
            // under it.
            if ended && name::lock(file).is_ok() && name::is_named(&self.path, file) {
                self.hide(file);
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns the error of a rank whose configured size differs from that of rank 0.
    fn wrong_size(&self, identity: &Identity) -> InitError {
        let ShmConfig { rank, size, .. } = *self.config;
        InitError::invalid(
            &["COBRE_SHM_SIZE"],
            format!(
                "COBRE_SHM_SIZE is {size} on rank {rank} and {} on rank 0 (process {}); set the \
                 same value on all ranks",
                identity.size, identity.creator.process.pid
            ),
        )
    }

    fn ranks(&self) -> u32 {
        u32::try_from(self.config.size).unwrap_or(u32::MAX)
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

    /// Sleeps briefly, longer each time; the more ranks do so, the longer.
    ///
    /// # Errors
    ///
    /// Once the time is up, or the hook asks this rank to stop.
    fn rest(&mut self) -> Result<(), Stop> {
        let pause = self.pause;
        let longest = (EACH * self.ranks()).max(Duration::from_millis(1));
        self.pause = (pause * 2).min(longest.min(LOOK));
        self.rest_by(pause, std::thread::sleep)
    }

    /// Sleeps for at most `time`, in the way given.
    ///
    /// # Errors
    ///
    /// As [`rest`](Self::rest).
    fn rest_by(&mut self, time: Duration, sleep: impl FnOnce(Duration)) -> Result<(), Stop> {
        let now = self.clock.now();
        let left = self.deadline.map_or(Duration::MAX, |deadline| {
            deadline.saturating_duration_since(now)
        });
        let time = time.min(left);
        sleep(time);
        self.clock.waited(time);
        if interrupt::requested() {
            Err(Stop::Interrupted)
        } else if left.is_zero() {
            Err(Stop::TimeIsUp)
        } else {
            Ok(())
        }
    }
}
