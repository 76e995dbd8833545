//! Where the coordinator is found, who may join, and how long a rank waits.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comm_kit::config::{Reader, environment};

use crate::error::InitError;
use crate::secret::Secret;
use crate::variables;

/// The port of the coordinator unless another is given.
pub(crate) const DEFAULT_PORT: u16 = 29500;

/// How long a collective waits for a rank that is alive but absent, unless told otherwise.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(1);

/// How long the ranks may take to find each other, unless told otherwise.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Longer than any job.
const FOR_EVER: Duration = Duration::from_hours(24 * 365 * 30);

/// The most ranks of one job: rank 0 holds two links to each.
const MOST_RANKS: usize = 4096;

/// Tells one rank where the coordinator of its job is found, and how long it waits for the others.
///
/// ```
/// use comm_tcp::TcpConfig;
/// use std::time::Duration;
///
/// let mut config = TcpConfig::new("node-0.cluster", 2, 16);
/// config.secret = Some("a long random string".into());
/// config.timeout = Some(Duration::from_secs(300));
/// assert_eq!(config.port, 29500);
/// assert!(!format!("{config:?}").contains("random"));
/// ```
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpConfig {
    /// The host of rank 0, a name or an address, without a port.
    pub coordinator: String,
    /// The port on which rank 0 listens.
    pub port: u16,
    /// The rank of this process, in `0..size`.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// How long a collective waits for a rank that is alive but absent; `None`, like zero, is for
    /// ever.
    pub timeout: Option<Duration>,
    /// How long [`connect`](crate::TcpBackend::connect) waits for all ranks to come.
    pub connect_timeout: Duration,
    /// The address on which rank 0 listens; `None` is loopback if the coordinator is, else all.
    pub bind_addr: Option<IpAddr>,
    /// What every rank must prove to know; required unless everything stays on loopback.
    pub secret: Option<String>,
    /// A file that holds the secret, instead of [`secret`](Self::secret).
    pub secret_file: Option<PathBuf>,
    /// Allows a job without a secret beyond loopback: whoever reaches the port may join.
    pub insecure: bool,
    /// Lets bulk go from rank to rank; `false` sends it all through rank 0, which is slower. What
    /// rank 0 says holds for all.
    pub ring: bool,
    /// The descriptor of a listening socket that rank 0 inherited from its launcher.
    pub listen_fd: Option<i32>,
    /// Identifies the job; must agree between the ranks.
    pub job_id: Option<String>,
}

impl TcpConfig {
    /// Makes a configuration with the default port, 29500, and the default timeouts: 60 s in a
    /// collective, 30 s at start-up.
    pub fn new(coordinator: impl Into<String>, rank: usize, size: usize) -> Self {
        Self {
            coordinator: coordinator.into(),
            port: DEFAULT_PORT,
            rank,
            size,
            timeout: Some(DEFAULT_TIMEOUT),
            connect_timeout: DEFAULT_CONNECT_TIMEOUT,
            bind_addr: None,
            secret: None,
            secret_file: None,
            insecure: false,
            ring: true,
            listen_fd: None,
            job_id: None,
        }
    }

    /// Reads the configuration from the environment of this process.
    ///
    /// | variable | default | field |
    /// |---|---|---|
    /// | `COBRE_TCP_COORDINATOR` | required | [`coordinator`](Self::coordinator) |
    /// | `COBRE_TCP_PORT` | 29500 | [`port`](Self::port) |
    /// | `COBRE_TCP_RANK` | required | [`rank`](Self::rank) |
    /// | `COBRE_TCP_SIZE` | required | [`size`](Self::size) |
    /// | `COBRE_TCP_TIMEOUT_SECS` | 60 | [`timeout`](Self::timeout), fractions allowed, 0 = for ever |
    /// | `COBRE_TCP_CONNECT_TIMEOUT_MS` | 30000 | [`connect_timeout`](Self::connect_timeout) |
    /// | `COBRE_TCP_BIND_ADDR` | by the coordinator | [`bind_addr`](Self::bind_addr) |
    /// | `COBRE_TCP_SECRET` | none | [`secret`](Self::secret) |
    /// | `COBRE_TCP_SECRET_FILE` | none | [`secret_file`](Self::secret_file) |
    /// | `COBRE_TCP_INSECURE` | 0 | [`insecure`](Self::insecure) |
    /// | `COBRE_TCP_LISTEN_FD` | none | [`listen_fd`](Self::listen_fd) |
    /// | `COBRE_JOB_ID` | none | [`job_id`](Self::job_id) |
    ///
    /// A variable that is empty counts as not set.
    ///
    /// # Errors
    ///
    /// As [`from_map`](Self::from_map); also for a value that is not UTF-8.
    pub fn from_env() -> Result<Self, InitError> {
        let mut map = environment(&variables::PLAIN)?;
        if let Some(secret) = std::env::var_os(variables::SECRET) {
            let name = variables::SECRET;
            let unusable = |_| InitError::invalid(&[name], format!("{name} is not UTF-8"));
            map.insert(name.to_owned(), secret.into_string().map_err(unusable)?);
        }
        Self::from_map(&map)
    }

    /// Reads the configuration from a map of variables, without looking at anything else.
    ///
    /// # Errors
    ///
    /// Names everything that is wrong at once, each with its value (but never the secret's):
    /// [`MissingConfiguration`](crate::InitErrorKind::MissingConfiguration) if a required variable
    /// is missing, else [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration).
    ///
    /// ```
    /// use comm_tcp::{InitErrorKind, TcpConfig};
    ///
    /// let error = TcpConfig::from_map(&Default::default()).unwrap_err();
    /// assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    /// assert_eq!(
    ///     error.variables,
    ///     ["COBRE_TCP_COORDINATOR", "COBRE_TCP_RANK", "COBRE_TCP_SIZE"],
    /// );
    /// ```
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, InitError> {
        let mut reader = Reader::new(map);
        let mut config = Self::new(
            reader.required(variables::COORDINATOR).unwrap_or_default(),
            reader.required_number(variables::RANK).unwrap_or(0),
            reader.required_number(variables::SIZE).unwrap_or(1),
        );
        if let Some(port) = reader.number(variables::PORT) {
            config.port = port;
        }
        if let Some(timeout) = reader.seconds(variables::TIMEOUT) {
            config.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        if let Some(timeout) = reader.millis(variables::CONNECT_TIMEOUT) {
            config.connect_timeout = timeout;
        }
        let advice = "give an address such as 10.0.0.5 or ::";
        config.bind_addr = reader.parse(variables::BIND_ADDR, advice, str::parse::<IpAddr>);
        config.secret = reader.text(variables::SECRET).map(str::to_owned);
        config.secret_file = reader.text(variables::SECRET_FILE).map(PathBuf::from);
        config.insecure = reader.switch(variables::INSECURE).unwrap_or(false);
        config.listen_fd = reader.number(variables::LISTEN_FD);
        config.job_id = reader.text(variables::JOB_ID).map(str::to_owned);
        for (variables, message) in config.faults() {
            reader.faults().add(&variables, message);
        }
        reader.finish()?;
        Ok(config)
    }

    /// Checks what can be checked before a socket is opened.
    pub(crate) fn check(&self) -> Result<(), InitError> {
        let map = BTreeMap::new();
        let mut reader = Reader::new(&map);
        for (variables, message) in self.faults() {
            reader.faults().add(&variables, message);
        }
        reader.finish()
    }

    /// Gives when the ranks must have found each other.
    pub(crate) fn deadline(&self) -> Instant {
        let now = Instant::now();
        // Whoever waits for longer than a clock can tell waits for ever.
        now.checked_add(self.connect_timeout)
            .unwrap_or(now + FOR_EVER)
    }

    /// Gives the secret, from wherever it is.
    pub(crate) fn proof_of(&self) -> Result<Option<Secret>, InitError> {
        match (&self.secret, &self.secret_file) {
            (Some(secret), _) => Ok(Some(Secret::new(secret.as_bytes()))),
            (None, Some(path)) => Secret::read(path).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn faults(&self) -> Vec<(Vec<&'static str>, String)> {
        let Self { rank, size, .. } = *self;
        let mut faults = Vec::new();
        if self.coordinator.contains(['/', ' ']) || ends_in_port(&self.coordinator) {
            faults.push((
                vec![variables::COORDINATOR],
                format!(
                    "{} is {:?}; give a host name or an address alone, the port goes to {}",
                    variables::COORDINATOR,
                    self.coordinator,
                    variables::PORT
                ),
            ));
        }
        if size == 0 || size > MOST_RANKS {
            faults.push((
                vec![variables::SIZE],
                format!(
                    "{} is {size}; a job has 1 to {MOST_RANKS} ranks",
                    variables::SIZE
                ),
            ));
        } else if rank >= size {
            faults.push((
                vec![variables::RANK, variables::SIZE],
                format!(
                    "{} is {rank} and {} is {size}; ranks go from 0 to {}",
                    variables::RANK,
                    variables::SIZE,
                    size - 1
                ),
            ));
        }
        if rank > 0 && self.port == 0 {
            faults.push((
                vec![variables::PORT],
                format!(
                    "{} is 0; give the port on which rank 0 listens",
                    variables::PORT
                ),
            ));
        }
        if let Some(secret) = &self.secret
            && secret.trim_ascii().is_empty()
        {
            faults.push((
                vec![variables::SECRET],
                format!(
                    "{} is empty, which keeps nobody out; give a long random string, or none",
                    variables::SECRET
                ),
            ));
        }
        if self.secret.is_some() && self.secret_file.is_some() {
            faults.push((
                vec![variables::SECRET, variables::SECRET_FILE],
                format!(
                    "{} and {} are both set; keep one",
                    variables::SECRET,
                    variables::SECRET_FILE
                ),
            ));
        }
        faults
    }
}

/// Tells `host:29500` and `[::1]:29500` from `host` and `::1`.
fn ends_in_port(host: &str) -> bool {
    host.starts_with('[') || (host.matches(':').count() == 1)
}

impl fmt::Debug for TcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpConfig")
            .field("coordinator", &self.coordinator)
            .field("port", &self.port)
            .field("rank", &self.rank)
            .field("size", &self.size)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("bind_addr", &self.bind_addr)
            .field("secret", &self.secret.as_ref().map(|_| "(redacted)"))
            .field("secret_file", &self.secret_file)
            .field("insecure", &self.insecure)
            .field("ring", &self.ring)
            .field("listen_fd", &self.listen_fd)
            .field("job_id", &self.job_id)
            .finish()
    }
}

#[cfg(test)]
mod tests;
