//! How to find the coordinator, which processes may join, and how long a rank waits.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::num::ParseIntError;
use std::ops::RangeInclusive;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

use comm_kit::config::{CONNECT_TIMEOUT, Faults, Reader, TIMEOUT, environment, fill};

use crate::encryption::Encryption;
use crate::error::InitError;
use crate::rendezvous::Countdown;
use crate::secret::Secret;
use crate::variables;

/// The default port of the coordinator.
pub(crate) const DEFAULT_PORT: u16 = 29500;

/// The maximum number of ranks of a job: rank 0 holds two links to each.
const MOST_RANKS: usize = 4096;

/// How one rank finds the coordinator of its job, and how long it waits for the others.
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
    /// How long a collective waits for a rank that is alive but absent; `None` and zero disable the timeout.
    pub timeout: Option<Duration>,
    /// How long [`connect`](crate::TcpBackend::connect) waits for all ranks.
    pub connect_timeout: Duration,
    /// The address on which rank 0 listens. `None` means the coordinator if that is an address of the
    /// machine, loopback if it is `localhost`, otherwise all addresses.
    pub bind_addr: Option<IpAddr>,
    /// The ports on which workers listen for their predecessors in the ring, so that a firewall can permit
    /// them; `None` means any free port. Each worker takes one, and ranks of one machine need one each.
    pub worker_ports: Option<RangeInclusive<u16>>,
    /// The secret that every rank must prove to know, any bytes; required unless everything stays on
    /// loopback. Surrounding ASCII white space is ignored.
    pub secret: Option<Vec<u8>>,
    /// A regular file of at most 64 KiB that holds the secret, instead of [`secret`](Self::secret).
    pub secret_file: Option<PathBuf>,
    /// Permits a job without a secret beyond loopback: any process that reaches the port may join.
    pub insecure: bool,
    /// Which links are encrypted; must agree between the ranks.
    pub encryption: Encryption,
    /// Lets ranks connect to each other; `false` sends all bulk through rank 0, which is slower. The setting
    /// of rank 0 applies to all ranks.
    pub ring: bool,
    /// The descriptor of a listening socket that rank 0 inherited from its launcher.
    pub listen_fd: Option<i32>,
    /// Identifies the job; must agree between the ranks.
    pub job_id: Option<String>,
}

impl TcpConfig {
    /// Creates a configuration with the default port, 29500, and the default timeouts: 60 s in a
    /// collective, 30 s at start-up.
    pub fn new(coordinator: impl Into<String>, rank: usize, size: usize) -> Self {
        Self {
            coordinator: coordinator.into(),
            port: DEFAULT_PORT,
            rank,
            size,
            timeout: Some(TIMEOUT),
            connect_timeout: CONNECT_TIMEOUT,
            bind_addr: None,
            worker_ports: None,
            secret: None,
            secret_file: None,
            insecure: false,
            encryption: Encryption::Auto,
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
    /// | `COBRE_TCP_TIMEOUT_SECS` | 60 | [`timeout`](Self::timeout), fractions allowed, 0 = no timeout |
    /// | `COBRE_TCP_CONNECT_TIMEOUT_MS` | 30000 | [`connect_timeout`](Self::connect_timeout) |
    /// | `COBRE_TCP_BIND_ADDR` | by the coordinator | [`bind_addr`](Self::bind_addr) |
    /// | `COBRE_TCP_WORKER_PORTS` | any | [`worker_ports`](Self::worker_ports), `A-B` |
    /// | `COBRE_TCP_SECRET` | none | [`secret`](Self::secret) |
    /// | `COBRE_TCP_SECRET_FILE` | none | [`secret_file`](Self::secret_file) |
    /// | `COBRE_TCP_INSECURE` | 0 | [`insecure`](Self::insecure) |
    /// | `COBRE_TCP_ENCRYPT` | auto | [`encryption`](Self::encryption): `auto`, `1` or `0` |
    /// | `COBRE_TCP_LISTEN_FD` | none | [`listen_fd`](Self::listen_fd) |
    /// | `COBRE_JOB_ID` | none | [`job_id`](Self::job_id) |
    ///
    /// An empty variable counts as not set. The secret may be any bytes.
    ///
    /// # Errors
    ///
    /// As [`from_map`](Self::from_map); also for a value other than the secret that is not UTF-8.
    pub fn from_env() -> Result<Self, InitError> {
        Self::from_env_and(&BTreeMap::new())
    }

    /// Reads the configuration like [`from_env`](Self::from_env), with `more` for variables that are not set:
    /// the equivalents from another launcher.
    ///
    /// # Errors
    ///
    /// As [`from_env`](Self::from_env).
    pub fn from_env_and(more: &BTreeMap<String, String>) -> Result<Self, InitError> {
        let mut map = environment(&variables::PLAIN)?;
        for (name, text) in more {
            fill(&mut map, name, text);
        }
        let secret = std::env::var_os(variables::SECRET);
        Self::read(&map, secret.as_ref().map(|secret| secret.as_bytes()))
    }

    /// Reads the configuration from a map of variables, and accesses nothing else.
    ///
    /// # Errors
    ///
    /// A single error that names everything missing or wrong, with the values (but never that of the secret):
    /// [`MissingConfiguration`](crate::InitErrorKind::MissingConfiguration) if a required variable is
    /// missing, otherwise [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration).
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
        let secret = map.get(variables::SECRET);
        Self::read(map, secret.map(String::as_bytes))
    }

    fn read(map: &BTreeMap<String, String>, secret: Option<&[u8]>) -> Result<Self, InitError> {
        let mut reader = Reader::new(map);
        let mut config = Self::new(
            reader.required(variables::COORDINATOR).unwrap_or_default(),
            reader.required_number(variables::RANK).unwrap_or(0),
            reader.required_number(variables::SIZE).unwrap_or(1),
        );
        if let Some(port) = reader.number(variables::PORT) {
            config.port = port;
        }
        config.timeout = reader.timeout(variables::TIMEOUT);
        if let Some(timeout) = reader.millis(variables::CONNECT_TIMEOUT) {
            config.connect_timeout = timeout;
        }
        let advice = "give an address such as 10.0.0.5 or ::";
        config.bind_addr = reader.parse(variables::BIND_ADDR, advice, str::parse::<IpAddr>);
        config.worker_ports = reader.parse(variables::WORKER_PORTS, PORTS, ports);
        // Not read through the reader, which trims Unicode white space: some of it may be a part of the
        // secret.
        let secret = secret.map(<[u8]>::trim_ascii);
        config.secret = secret.filter(|s| !s.is_empty()).map(<[u8]>::to_vec);
        config.secret_file = reader.text(variables::SECRET_FILE).map(PathBuf::from);
        config.insecure = reader.switch(variables::INSECURE).unwrap_or(false);
        let advice = "give auto (links beyond loopback), 1 (all links) or 0 (no links)";
        let encryption = reader.parse(variables::ENCRYPT, advice, str::parse);
        config.encryption = encryption.unwrap_or_default();
        config.listen_fd = reader.number(variables::LISTEN_FD);
        config.job_id = reader.text(variables::JOB_ID).map(str::to_owned);
        config.find_faults(reader.faults());
        reader.finish()?;
        Ok(config)
    }

    /// Checks what can be checked before a socket is opened.
    pub(crate) fn check(&self) -> Result<(), InitError> {
        let mut faults = Faults::default();
        self.find_faults(&mut faults);
        faults.finish()
    }

    /// Returns the secret, from the variable or the file.
    pub(crate) fn proof_of(&self, time: &mut Countdown) -> Result<Option<Secret>, InitError> {
        match (&self.secret, &self.secret_file) {
            (Some(secret), _) => Ok(Some(Secret::new(secret))),
            (None, Some(path)) => Secret::read(self, path, time).map(Some),
            (None, None) => Ok(None),
        }
    }

    fn find_faults(&self, faults: &mut Faults) {
        use variables::{COORDINATOR, ENCRYPT, PORT, RANK, SECRET, SECRET_FILE, SIZE};
        let coordinator = &self.coordinator;
        if coordinator.contains(['/', ' ']) || ends_in_port(coordinator) {
            let message = format!(
                "{COORDINATOR} is {coordinator:?}; give only a host name or an address, and set the port with {PORT}"
            );
            faults.add(&[COORDINATOR], message);
        }
        faults.check_rank(RANK, self.rank, SIZE, self.size, MOST_RANKS);
        if self.rank > 0 && self.port == 0 {
            let message = format!("{PORT} is 0; give the port on which rank 0 listens");
            faults.add(&[PORT], message);
        }
        if let Some(ports) = &self.worker_ports
            && (ports.is_empty() || *ports.start() == 0)
        {
            let (name, low, high) = (variables::WORKER_PORTS, ports.start(), ports.end());
            faults.add(&[name], format!("{name} is {low}-{high}; {PORTS}"));
        }
        if let Some(secret) = &self.secret
            && secret.trim_ascii().is_empty()
        {
            let message = format!(
                "{SECRET} is empty, which protects nothing; give a long random string, or none"
            );
            faults.add(&[SECRET], message);
        }
        if self.secret.is_some() && self.secret_file.is_some() {
            let message = format!("{SECRET} and {SECRET_FILE} are both set; keep one");
            faults.add(&[SECRET, SECRET_FILE], message);
        }
        let secret = self.secret.is_some() || self.secret_file.is_some();
        if self.encryption == Encryption::On && !secret {
            let message = format!(
                "{ENCRYPT} is 1, which needs a secret: set {SECRET} or {SECRET_FILE} to the same value \
                 on all ranks"
            );
            faults.add(&[ENCRYPT, SECRET, SECRET_FILE], message);
        }
    }
}

/// The format of a range of ports.
const PORTS: &str = "give the lowest and the highest port, such as 29501-29600";

/// Reads the lowest and the highest port, or a single port.
fn ports(text: &str) -> Result<RangeInclusive<u16>, ParseIntError> {
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    Ok(low.trim().parse()?..=high.trim().parse()?)
}

/// Distinguishes `host:29500` and `[::1]:29500` from `host` and `::1`.
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
            .field("worker_ports", &self.worker_ports)
            .field("secret", &self.secret.as_ref().map(|_| "(redacted)"))
            .field("secret_file", &self.secret_file)
            .field("insecure", &self.insecure)
            .field("encryption", &self.encryption)
            .field("ring", &self.ring)
            .field("listen_fd", &self.listen_fd)
            .field("job_id", &self.job_id)
            .finish()
    }
}

#[cfg(test)]
mod tests;
