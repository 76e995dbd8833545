//! How a backend joins the suite: a type, a name, a model, and a function that opens a seat.

use std::error::Error;
use std::io;
use std::net::TcpListener;
use std::time::Duration;

use comm_api::{Communicator, SharedMemoryProvider};

use crate::board::Board;
use crate::launcher::Launcher;
use crate::model::Model;
use crate::port;

/// The error of opening a seat or running a case.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Joins a backend to the suite.
///
/// ```no_run
/// use std::process::ExitCode;
/// use comm_conformance::{Failure, Model, Seat, Subject};
/// # use comm_conformance::reference::Reference as MyBackend;
///
/// struct Mine;
///
/// impl Subject for Mine {
///     type Comm = MyBackend;
///     const NAME: &'static str = "mine";
///     const MODEL: Model = Model::FULL;
///
///     fn open(seat: &Seat) -> Result<MyBackend, Failure> {
///         # return Ok(MyBackend::open(seat.name(), seat.rank(), seat.size(), seat.timeout())?);
///         # #[cfg(any())]
///         MyBackend::join(seat.name(), seat.rank(), seat.size(), seat.timeout())
///     }
/// }
///
/// fn main() -> ExitCode {
///     comm_conformance::main::<Mine>()
/// }
/// ```
pub trait Subject: 'static {
    /// The communicator under test.
    type Comm: Communicator + SharedMemoryProvider + 'static;

    /// The name in the tables, and that of the backend in `cargo xtask conformance --backend`.
    const NAME: &'static str;

    /// What the backend promises.
    const MODEL: Model;

    /// The maximum duration of a case; a rank that exceeds it reports its position and is ended.
    const LIMIT: Duration = Duration::from_mins(1);

    /// Returns the program that starts the ranks, if it is not `comm-run`.
    ///
    /// # Errors
    ///
    /// If there is none: a backend that was requested and cannot be started fails.
    fn launcher(world: usize) -> Result<Option<Launcher>, Failure> {
        let _ = world;
        Ok(None)
    }

    /// Opens the communicator of one seat.
    ///
    /// # Errors
    ///
    /// Any error of the backend; the case fails with it.
    fn open(seat: &Seat) -> Result<Self::Comm, Failure>;
}

/// The key of the port that rank 0 listens on.
pub(crate) const PORT: &str = "port";

/// The key of the port from which chaos forwards bytes slowly.
pub(crate) const SLOW_PORT: &str = "slow-port";

/// The seat of one rank in one communicator.
///
/// A case may open several communicators: each has its own name, the same on all its ranks.
#[derive(Debug, Clone)]
pub struct Seat {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) name: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) board: Board,
    /// The key of the port at which this rank finds rank 0.
    pub(crate) door: &'static str,
    pub(crate) relayed: bool,
}

impl Seat {
    /// Returns the rank to take.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns the name of the communicator: letters, digits and dashes, unique on this machine.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns how long a collective may wait for a rank that is alive; `None` means no timeout.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns how long the ranks may take to find each other.
    #[must_use]
    pub fn connect_timeout(&self) -> Duration {
        self.connect_timeout
    }

    /// Publishes something that the other ranks of this communicator need to find each other.
    ///
    /// # Errors
    ///
    /// If the directory of the job cannot be written.
    pub fn publish(&self, key: &str, value: &str) -> io::Result<()> {
        self.board.post(&format!("seat-{}-{key}", self.name), value)
    }

    /// Waits for a value that a rank of this communicator publishes.
    ///
    /// # Errors
    ///
    /// If no rank publishes it within [`connect_timeout`](Self::connect_timeout).
    pub fn lookup(&self, key: &str) -> io::Result<String> {
        self.board
            .wait(&format!("seat-{}-{key}", self.name), self.connect_timeout)
    }

    /// Listens on a port of loopback as rank 0 and publishes it; the same port for the same
    /// name, so that a case can see whether it is free again.
    ///
    /// # Errors
    ///
    /// If the port is taken, or cannot be published.
    pub fn listen(&self) -> io::Result<TcpListener> {
        let listener = port::listen(&self.name)?;
        let port = listener.local_addr()?.port();
        self.publish(PORT, &port.to_string())?;
        Ok(listener)
    }

    /// Waits for the port that rank 0 listens on.
    ///
    /// # Errors
    ///
    /// If it does not publish one within [`connect_timeout`](Self::connect_timeout).
    pub fn port(&self) -> io::Result<u16> {
        self.lookup(self.door)?.parse().map_err(io::Error::other)
    }

    /// Returns whether a proxy forwards the bytes of this job. A backend that defends itself against that
    /// must be configured for it.
    #[must_use]
    pub fn is_relayed(&self) -> bool {
        self.relayed
    }

    /// Sets the seat that a mutant takes instead of this one.
    #[doc(hidden)]
    #[must_use]
    pub fn taken_as(mut self, name: String, rank: usize, size: usize) -> Self {
        (self.name, self.rank, self.size) = (name, rank, size);
        self
    }

    /// Sets the timeout, so that cases about absent ranks do not wait for a minute.
    #[doc(hidden)]
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Records that workers reach rank 0 through a proxy that forwards their bytes.
    pub(crate) fn with_relay(mut self) -> Self {
        self.relayed = true;
        self
    }

    /// Directs this rank to the port of a slow link instead of that of rank 0.
    pub(crate) fn over_slow_link(mut self) -> Self {
        self.door = SLOW_PORT;
        self
    }

    /// Sets the timeout of the start, for cases in which it cannot succeed.
    #[must_use]
    pub(crate) fn with_connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }
}
