//! The communicator: what a program holds.

use std::fmt;
use std::net::TcpListener;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use comm_api::{Blocks, CommError, Communicator, Operation, ReduceOp, ScalarKind, check};
use comm_kit::clock::Clock;
use comm_kit::processors::usable;
use comm_kit::wait::Policy;
use comm_kit::words::{self, Lost};
use comm_kit::{CommId, Gate, Owner, Pass, Transport, exit_code};

use crate::collective::{ByteBlocks, Failure, Hosts};
use crate::config::TcpConfig;
use crate::engine::Engine;
use crate::error::InitError;
use crate::handshake::{Keys, LAYOUT, SESSION, job};
use crate::link::{Link, Voice};
use crate::member::Outlook;
use crate::notice::Notice;
use crate::rendezvous::{Countdown, Identity, Joined, coordinate, join};
use crate::secret::Secret;
use crate::watch::{CommitWord, Signals};
use crate::{descriptors, listen, socket, variables};

/// How long an aborting rank 0 waits until all ranks have been notified.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// How long an aborting rank 0 waits for its log.
const LAST_LINE: Duration = Duration::from_millis(100);

/// Communicates with other ranks over TCP.
///
/// Created by [`connect`](Self::connect), which returns when all ranks have come. Dropped, it says
/// goodbye to the others and waits for nobody, but for one case: rank 0, after a failure during which a machine could not
/// be reached, keeps its links until that machine has confirmed the cause, for 3/8 of the timeout at most (20 s).
pub struct TcpBackend {
    rank: usize,
    size: usize,
    owner: Owner,
    id: CommId,
    /// Absent in a job of one rank, which has no other rank to talk to.
    job: Option<Job>,
}

#[derive(Debug)]
struct Job {
    gate: Gate<Peers>,
    /// The watch, on rank 0.
    hub: Option<JoinHandle<()>>,
}

/// What reaches the other ranks from outside a call.
#[derive(Debug)]
pub(crate) struct Peers {
    /// A second handle to the watch link, for an abort from another thread.
    watch_link: Voice,
    signals: Arc<Signals>,
}

impl Transport for Peers {
    type State = Engine;

    fn refuse(&self, engine: &mut Engine, reason: &str) {
        engine.refuse(reason);
    }

    fn panicked(&self, engine: &mut Engine) {
        self.signals.take_back(engine.sequence);
        engine.watcher.tell(&Notice::Lost(Lost::PanickedInside));
    }
}

impl TcpBackend {
    /// Joins the job that `config` describes; returns when all ranks have joined.
    ///
    /// Rank 0 listens; the others try to connect until the connect timeout, so rank 0 may start last. A job
    /// of one rank opens nothing.
    ///
    /// A process may create several communicators, for example one per thread: one after the other, in the
    /// same order on all ranks.
    ///
    /// # Errors
    ///
    /// [`InitError`] if the configuration is unusable, the limit on descriptors is too low, a secret is
    /// missing or wrong, the port is taken, or not all ranks join in time.
    pub fn connect(config: TcpConfig) -> Result<Self, InitError> {
        Self::start(config, None)
    }

    /// Joins like [`connect`](Self::connect), with a socket that is already listening.
    ///
    /// Only rank 0 uses it: a launcher can bind a free port first and pass its number to the other ranks,
    /// which drop the socket.
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
        let mut backend = Self::alone();
        (backend.rank, backend.size) = (rank, size);
        if size == 1 {
            return Ok(backend);
        }
        descriptors::check(config, listener.is_some())?;
        let time = &mut Countdown::new(config.connect_timeout);
        let secret = config.proof_of(time);
        let secret = secret.map_err(|error| time.explain(rank, error))?;
        secret.iter().for_each(Secret::warn_if_short);
        let mut identity = Identity {
            rank,
            size,
            keys: Keys::new(secret.as_ref().map_or(&[], |secret| secret.bytes())),
            session: [0; SESSION],
            job: job(config.job_id.as_deref()),
            layout: LAYOUT,
            host: comm_kit::host::id(),
            encryption: config.encryption,
            has_secret: secret.is_some(),
        };
        let failed = |error: &dyn std::fmt::Display| {
            InitError::failed(&[], format!("rank {rank} cannot set up its links: {error}"))
        };
        let joined = if rank == 0 {
            let (listener, _turn) = listen::take(listener, config)?;
            let address = listener.local_addr().map_err(|error| failed(&error))?;
            listen::findable(address.ip(), config)?;
            listen::permit(
                address.ip(),
                "the listener of rank 0,",
                secret.as_ref(),
                config,
            )?;
            getrandom::fill(&mut identity.session).map_err(|error| failed(&error))?;
            coordinate(config, listener, &identity, time)
        } else {
            drop(listener);
            join(config, &mut identity, secret.as_ref(), time)
        };
        let joined = joined.map_err(|error| time.explain(rank, error))?;
        if joined.links.all().any(Link::is_sealed) {
            tracing::info!(
                rank,
                "links are encrypted; on a network you trust {}=0 on all ranks turns that off",
                variables::ENCRYPT
            );
        }
        backend.job = Some(Job::new(joined, config).map_err(|error| failed(&error))?);
        tracing::info!(rank, size, "joined");
        Ok(backend)
    }

    /// Creates the communicator of a job of one rank.
    pub(crate) fn alone() -> Self {
        Self {
            rank: 0,
            size: 1,
            owner: Owner::mark(),
            id: CommId::next(),
            job: None,
        }
    }

    /// Returns the id that distinguishes this communicator from all others of this process.
    pub(crate) fn id(&self) -> CommId {
        self.id
    }

    /// Returns the gate of a job of several ranks, or refuses a forked child of one rank.
    #[track_caller]
    pub(crate) fn gate(&self) -> Result<Option<&Gate<Peers>>, CommError> {
        match &self.job {
            None => check::placed(self.owner.check()).map(|()| None),
            Some(job) => Ok(Some(&job.gate)),
        }
    }

    /// Passes on the result of an argument check; if the check failed, announces the refusal to the others.
    #[track_caller]
    pub(crate) fn checked<R>(&self, checked: Result<R, CommError>) -> Result<R, CommError> {
        match self.gate()? {
            None => check::placed(checked),
            Some(gate) => gate.checked(checked),
        }
    }
}

/// Runs one call.
#[track_caller]
pub(crate) fn run(
    gate: &Gate<Peers>,
    operation: Operation,
    call: impl FnOnce(&mut Engine) -> Result<(), Failure>,
) -> Result<(), CommError> {
    run_from(gate, operation, Location::caller(), call)
}

/// Runs one call that the program made at this place.
pub(crate) fn run_from(
    gate: &Gate<Peers>,
    operation: Operation,
    at: &'static Location<'static>,
    call: impl FnOnce(&mut Engine) -> Result<(), Failure>,
) -> Result<(), CommError> {
    run_inside(&mut gate.enter_from(operation, at)?, operation, call)
}

/// Takes one position in the sequence, inside a call that has several.
pub(crate) fn run_inside(
    engine: &mut Pass<'_, Peers>,
    operation: Operation,
    call: impl FnOnce(&mut Engine) -> Result<(), Failure>,
) -> Result<(), CommError> {
    let result = match engine.failed.take() {
        None => call(engine),
        Some(cause) => Err(Failure::Fatal(cause)),
    };
    engine.pass();
    result.map_err(|failure| match failure {
        Failure::Refused { rank, reason } => {
            engine.fail(words::refused(operation, rank, Some(&reason)))
        }
        Failure::Fatal(cause) => {
            let cause = cause.within(engine.size);
            engine.fail(cause.error(operation))
        }
    })
}

impl Job {
    fn new(joined: Joined, config: &TcpConfig) -> std::io::Result<Self> {
        let peers = Peers {
            watch_link: joined.watcher.voice()?,
            signals: Arc::clone(&joined.signals),
        };
        let engine = Engine {
            rank: config.rank,
            size: config.size,
            hosts: Hosts::of(config.size, joined.local_ranks, joined.crowded),
            links: joined.links,
            watcher: joined.watcher,
            member: joined.member,
            signals: joined.signals,
            awake: Policy::new(joined.local_ranks, usable()),
            sequence: 0,
            outlook: Outlook::Entering,
            failed: None,
            scratch: Vec::new(),
        };
        Ok(Self {
            gate: Gate::new(config.rank, peers, engine),
            hub: joined.hub,
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
        match self.gate()? {
            None => Ok(()),
            Some(gate) => run(gate, Operation::Barrier, Engine::barrier),
        }
    }

    fn abort(&self, code: i32) -> ! {
        let code = exit_code(code);
        if let Some(job) = &self.job
            && self.owner.is_here()
        {
            job.gate.transport().abort(code, self.rank == 0);
        }
        std::process::exit(code)
    }

    fn allgatherv_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        from: Blocks<'_>,
        elem_size: usize,
    ) -> Result<(), CommError> {
        let (rank, size) = (self.rank, self.size);
        let checked = check::allgatherv_bytes(rank, size, send, recv, from, elem_size);
        self.checked(checked)?;
        let blocks = ByteBlocks::new(from, elem_size);
        match self.gate()? {
            None => recv[blocks.range(0)].copy_from_slice(send),
            Some(gate) => run(gate, Operation::Allgatherv, |engine| {
                engine.allgatherv(send, recv, blocks)
            })?,
        }
        Ok(())
    }

    fn allreduce_bytes(
        &self,
        send: &[u8],
        recv: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.checked(check::allreduce_bytes(send, recv, scalar, op))?;
        match self.gate()? {
            None => recv.copy_from_slice(send),
            Some(gate) => run(gate, Operation::Allreduce, |engine| {
                engine.allreduce(send, recv, scalar, op)
            })?,
        }
        Ok(())
    }

    fn allreduce_in_place_bytes(
        &self,
        buf: &mut [u8],
        scalar: ScalarKind,
        op: ReduceOp,
    ) -> Result<(), CommError> {
        self.checked(check::allreduce_in_place_bytes(buf, scalar, op))?;
        match self.gate()? {
            None => Ok(()),
            Some(gate) => run(gate, Operation::Allreduce, |engine| {
                engine.allreduce_in_place(buf, scalar, op)
            }),
        }
    }

    fn broadcast_bytes(
        &self,
        buf: &mut [u8],
        elem_size: usize,
        root: usize,
    ) -> Result<(), CommError> {
        self.checked(check::broadcast_bytes(self.size, buf, elem_size, root))?;
        match self.gate()? {
            None => Ok(()),
            Some(gate) => run(gate, Operation::Broadcast, |engine| {
                engine.broadcast(buf, elem_size, root)
            }),
        }
    }

    fn refuse(&self, _operation: Operation, error: &CommError) {
        if let Some(job) = &self.job {
            job.gate.refuse(error);
        }
    }
}

impl Peers {
    /// Notifies all ranks before the process ends, even while another thread is in a call.
    fn abort(&self, code: i32, is_rank_0: bool) {
        let _ = self.watch_link.say(&Notice::Abort { code }.encode());
        if !is_rank_0 {
            return;
        }
        // The watch is a thread of this process, and logging, which may block, happens on it too.
        let Signals {
            announced, logged, ..
        } = &*self.signals;
        for (done, limit) in [(announced, LAST_WORDS), (logged, LAST_LINE)] {
            let mut clock = Clock::start();
            let deadline = clock.now() + limit;
            let pause = Duration::from_millis(1);
            while !done.load(Ordering::Acquire) && clock.waited(pause) < deadline {
                std::thread::sleep(pause);
            }
        }
    }
}

impl Engine {
    /// Announces the departure and closes everything, without waiting for any rank.
    fn leave(&mut self) {
        self.signals.leaving.store(true, Ordering::Release);
        for link in &mut self.links.data {
            let _ = link.write(&[]);
        }
        self.watcher.tell(&match Lost::by_drop() {
            Lost::Dropped => Notice::Goodbye {
                sequence: self.sequence,
            },
            lost => Notice::Lost(lost),
        });
        for link in self.links.all() {
            socket::hang_up(link);
        }
        socket::hang_up(&self.watcher);
    }
}

impl fmt::Debug for TcpBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Leaves out the links: they hold thousands of bytes of the program.
        f.debug_struct("TcpBackend")
            .field("rank", &self.rank)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

impl Drop for TcpBackend {
    fn drop(&mut self) {
        // A forked child has handles to the links of its parent: it closes its own and sends nothing.
        if let Some(Job { gate, hub }) = &mut self.job
            && let Some((_, engine)) = gate.leave()
        {
            engine.leave();
            if let Some(hub) = hub.take() {
                // It ends when it has read the end of the link above; it waits for nobody else, but for a rank that
                // cannot be reached and may come back.
                let _ = hub.join();
            }
            tracing::info!(rank = self.rank, "left");
        }
    }
}

#[cfg(test)]
mod tests;
