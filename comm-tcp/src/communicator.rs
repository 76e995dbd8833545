//! The communicator: what a program holds.

use std::fmt;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use comm_api::{
    CommData, CommError, Communicator, FailureKind, ReduceOp, ScalarKind, SharedMemoryProvider,
    check,
};
use comm_local::{HeapRegion, LocalBackend};

use crate::collective::{Blocks, Failure};
use crate::config::TcpConfig;
use crate::engine::Engine;
use crate::error::InitError;
use crate::handshake::{Keys, LAYOUT, SESSION, job};
use crate::link::Stream;
use crate::notice::Notice;
use crate::patience::Patience;
use crate::rendezvous::{Identity, Joined, coordinate, join};
use crate::watch::Signals;
use crate::{host, listen, socket};

/// How long an aborting rank 0 waits until all have been told.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Communicates with other ranks over TCP.
///
/// Made by [`connect`](Self::connect), which returns when all ranks have come. Dropped, it says
/// goodbye to the others and waits for nobody.
pub struct TcpBackend {
    rank: usize,
    size: usize,
    /// The process that may use it: a forked child may not.
    process: u32,
    /// Absent in a job of one rank, which has nobody to talk to.
    job: Option<Job>,
}

#[derive(Debug)]
struct Job {
    /// Locked by whoever is inside a call; a second one is refused.
    engine: Mutex<Engine>,
    /// A second handle to the watch link, for an abort from another thread.
    bell: OwnedFd,
    hub: Option<JoinHandle<()>>,
    signals: Arc<Signals>,
}

impl TcpBackend {
    /// Joins the job that `config` describes, and returns when all ranks have.
    ///
    /// Rank 0 listens; the others look for it until the connect timeout, so it may start last. A
    /// job of one rank opens nothing.
    ///
    /// # Errors
    ///
    /// [`InitError`] if the configuration cannot be used, a secret is needed or wrong, the port is
    /// taken, or not all ranks come in time.
    pub fn connect(config: TcpConfig) -> Result<Self, InitError> {
        Self::start(config, None)
    }

    /// Joins as [`connect`](Self::connect) does, with a socket that listens already.
    ///
    /// Only rank 0 uses it: whoever starts the ranks can bind a free port first and tell it to the
    /// others. The other ranks drop it.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_with_listener(
        config: TcpConfig,
        listener: TcpListener,
    ) -> Result<Self, InitError> {
        Self::start(config, Some(listener))
    }

    fn start(mut config: TcpConfig, listener: Option<TcpListener>) -> Result<Self, InitError> {
        config.check()?;
        config.timeout = config.timeout.filter(|timeout| !timeout.is_zero());
        let config = &config;
        let (rank, size) = (config.rank, config.size);
        let mut backend = Self {
            rank,
            size,
            process: std::process::id(),
            job: None,
        };
        if size == 1 {
            return Ok(backend);
        }
        let secret = config.proof_of()?;
        let mut identity = Identity {
            rank,
            size,
            keys: Keys::new(secret.as_ref().map_or(&[], |secret| secret.bytes())),
            session: [0; SESSION],
            job: job(config.job_id.as_deref()),
            layout: LAYOUT,
            host: host::id(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            InitError::failed(&[], format!("rank {rank} cannot set up its links: {error}"))
        };
        let joined = if rank == 0 {
            let listener = match listener {
                Some(listener) => listener,
                None => listen::open(config)?,
            };
            let address = listener.local_addr().map_err(|error| failed(&error))?;
            listen::permit(
                address.ip(),
                "the listener of rank 0,",
                secret.as_ref(),
                config,
            )?;
            getrandom::fill(&mut identity.session).map_err(|error| failed(&error))?;
            coordinate(config, listener, &identity)?
        } else {
            drop(listener);
            join(config, &mut identity, secret.as_ref())?
        };
        let job = Job::new(joined, config).map_err(|error| failed(&error))?;
        backend.job = Some(job);
        tracing::info!(rank, size, "joined");
        Ok(backend)
    }

    /// Runs one call, unless that is out of the question from the start.
    fn call(
        &self,
        operation: &'static str,
        run: impl FnOnce(&mut Engine) -> Result<(), Failure>,
    ) -> Result<(), CommError> {
        if self.process != std::process::id() {
            return Err(CommError::InvalidCommunicator);
        }
        let Some(job) = &self.job else {
            return Err(CommError::InvalidCommunicator);
        };
        let mut engine = match job.engine.try_lock() {
            Ok(engine) => engine,
            Err(TryLockError::WouldBlock) => {
                return Err(comm_kit::words::busy(operation, self.rank));
            }
            Err(TryLockError::Poisoned(_)) => return Err(CommError::InvalidCommunicator),
        };
        if let Some(cause) = &engine.failed {
            return Err(cause.error(operation));
        }
        let result = run(&mut engine);
        engine.pass();
        match result {
            Ok(()) => Ok(()),
            Err(Failure::Own(error)) => Err(error),
            Err(Failure::Refused { rank, reason }) => Err(refused(operation, rank, &reason)),
            Err(Failure::Fatal(cause)) => {
                let error = cause.error(operation);
                tracing::error!(rank = self.rank, %error, "collective failed");
                engine.failed = Some(cause);
                Err(error)
            }
        }
    }
}

impl Job {
    fn new(joined: Joined, config: &TcpConfig) -> std::io::Result<Self> {
        let bell = joined.watcher.as_fd().try_clone_to_owned()?;
        let engine = Engine {
            rank: config.rank,
            size: config.size,
            near: joined.local_ranks == config.size,
            links: joined.links,
            watcher: joined.watcher,
            signals: Arc::clone(&joined.signals),
            patience: Patience::new(joined.local_ranks),
            timeout: config.timeout,
            sequence: 0,
            failed: None,
            scratch: Vec::new(),
        };
        Ok(Self {
            engine: Mutex::new(engine),
            bell,
            hub: joined.hub,
            signals: joined.signals,
        })
    }
}

impl Communicator for TcpBackend {
    #[inline]
    fn rank(&self) -> usize {
        self.rank
    }

    #[inline]
    fn size(&self) -> usize {
        self.size
    }

    fn barrier(&self) -> Result<(), CommError> {
        if self.size == 1 {
            return self.alone();
        }
        self.call("barrier", Engine::barrier)
    }

    fn abort(&self, code: i32) -> ! {
        let code = if code == 0 { 1 } else { code };
        if let Some(job) = &self.job
            && self.process == std::process::id()
        {
            job.abort(code);
        }
        std::process::exit(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        counts: &[usize],
        displs: &[usize],
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size);
        let checked = check::allgatherv_bytes(rank, size, send, recv, counts, displs, elem_size);
        self.told("allgatherv", checked)?;
        let blocks = Blocks {
            counts,
            displs,
            elem_size,
        };
        if size == 1 {
            recv[blocks.range(0)].copy_from_slice(send);
            return self.alone();
        }
        self.call("allgatherv", |engine| engine.allgatherv(send, recv, blocks))
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.told("allreduce", check::allreduce_bytes(send, recv, scalar, op))?;
        if self.size == 1 {
            recv.copy_from_slice(send);
            return self.alone();
        }
        self.call("allreduce", |engine| {
            engine.allreduce(send, recv, scalar, op)
        })
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        let checked = check::broadcast_bytes(self.size, buf, elem_size, root);
        self.told("broadcast", checked)?;
        if self.size == 1 {
            return self.alone();
        }
        self.call("broadcast", |engine| engine.broadcast(buf, elem_size, root))
    }

    fn refuse(&self, _operation: &'static str, error: &CommError) {
        let Some(job) = &self.job else {
            return;
        };
        // A call of another thread is under way: this one takes no place in the sequence.
        if self.process == std::process::id()
            && let Ok(mut engine) = job.engine.try_lock()
            && engine.failed.is_none()
        {
            engine.refuse(error);
        }
    }
}

impl TcpBackend {
    /// Tells the others if the arguments were refused.
    fn told(
        &self,
        operation: &'static str,
        checked: Result<(), CommError>,
    ) -> Result<(), CommError> {
        checked.inspect_err(|error| self.refuse(operation, error))
    }

    /// What a job of one rank has left to check.
    fn alone(&self) -> Result<(), CommError> {
        if self.process == std::process::id() {
            Ok(())
        } else {
            Err(CommError::InvalidCommunicator)
        }
    }
}

impl Job {
    /// Lets all know before the process ends. One send of a few bytes: another thread that writes
    /// a report at the same time cannot come between its bytes.
    fn abort(&self, code: i32) {
        let bytes = Notice::Abort { code }.encode();
        if let Ok(mut bell) = self.bell.try_clone() {
            let _ = bell.send(&[std::io::IoSlice::new(&bytes)]);
        }
        let deadline = Instant::now() + LAST_WORDS;
        while self.hub.is_some()
            && !self.signals.announced.load(Ordering::Acquire)
            && Instant::now() < deadline
        {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Says goodbye and closes everything, without waiting for anybody.
    fn leave(&mut self) {
        let engine = match self.engine.get_mut() {
            Ok(engine) => engine,
            Err(poisoned) => poisoned.into_inner(),
        };
        for link in &mut engine.links.data {
            let _ = link.write(&[]);
        }
        engine.watcher.tell(&if std::thread::panicking() {
            Notice::Panicked
        } else {
            Notice::Goodbye {
                sequence: engine.sequence,
            }
        });
        for link in engine.links.all() {
            socket::part(link);
        }
        socket::part(&engine.watcher);
        if let Some(hub) = self.hub.take() {
            // It ends when it has read the end of the link above; it waits for nobody else.
            let _ = hub.join();
        }
    }
}

impl fmt::Debug for TcpBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the links: they hold bytes of the program, by the thousand.
        f.debug_struct("TcpBackend")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Drop for TcpBackend {
    fn drop(&mut self) {
        // A forked child has handles to the links of its parent: it closes its own and says nothing.
        if self.process == std::process::id()
            && let Some(job) = &mut self.job
        {
            job.leave();
            tracing::info!(rank = self.rank, "left");
        }
    }
}

impl SharedMemoryProvider for TcpBackend {
    type Region<T: CommData> = HeapRegion<T>;

    fn create_shared_region<T: CommData>(&self, count: usize) -> Result<HeapRegion<T>, CommError> {
        HeapRegion::new(count)
    }

    fn create_partitioned_region<T: CommData>(
        &self,
        local_count: usize,
    ) -> Result<HeapRegion<T>, CommError> {
        HeapRegion::new(local_count)
    }

    fn split_local(&self) -> Result<Box<dyn Communicator>, CommError> {
        Ok(Box::new(LocalBackend))
    }

    fn is_leader(&self) -> bool {
        true
    }
}

#[cold]
fn refused(operation: &'static str, rank: usize, reason: &str) -> CommError {
    CommError::failed(
        operation,
        FailureKind::Refused,
        Some(rank),
        format!("{reason} (on that rank; this communicator stays usable)"),
    )
}
