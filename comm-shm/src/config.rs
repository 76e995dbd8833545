//! Where the segment is found, and how long a rank waits.

use std::collections::BTreeMap;
use std::time::Duration;

use comm_kit::config::{Reader, environment};

use crate::error::InitError;

/// The most ranks one segment takes.
const MOST_RANKS: usize = 1024;

/// The longest name of a file on the supported systems.
const LONGEST_NAME: usize = 255;

/// The longest job id: it travels in the header of the segment.
pub(crate) const LONGEST_JOB_ID: usize = 256;

const NAME: &str = "COBRE_SHM_NAME";
const RANK: &str = "COBRE_SHM_RANK";
const SIZE: &str = "COBRE_SHM_SIZE";
const TIMEOUT: &str = "COBRE_SHM_TIMEOUT_SECS";
const CONNECT_TIMEOUT: &str = "COBRE_SHM_CONNECT_TIMEOUT_MS";
const JOB_ID: &str = "COBRE_JOB_ID";

/// Tells one rank where the segment of its job is found, and how long it waits for the others.
///
/// ```
/// use comm_shm::ShmConfig;
/// use std::time::Duration;
///
/// let mut config = ShmConfig::new("my-job", 0, 4);
/// config.timeout = Some(Duration::from_secs(300));
/// assert_eq!(config.connect_timeout, Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmConfig {
    /// The name of the job's segment, the same on every rank and of no other job on the machine.
    pub name: String,
    /// The rank of this process, in `0..size`.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// How long a collective waits for a rank that is alive but absent; `None` is for ever.
    pub timeout: Option<Duration>,
    /// How long [`attach`](crate::ShmBackend::attach) waits for all ranks to come.
    pub connect_timeout: Duration,
    /// Identifies the job; must agree between the ranks.
    pub job_id: Option<String>,
}

impl ShmConfig {
    /// Makes a configuration with the default timeouts: 60 s in a collective, 30 s at start-up.
    pub fn new(name: impl Into<String>, rank: usize, size: usize) -> Self {
        Self {
            name: name.into(),
            rank,
            size,
            timeout: Some(Duration::from_mins(1)),
            connect_timeout: Duration::from_secs(30),
            job_id: None,
        }
    }

    /// Reads the configuration from the environment of this process.
    ///
    /// | variable | default | field |
    /// |---|---|---|
    /// | `COBRE_SHM_NAME` | required | [`name`](Self::name) |
    /// | `COBRE_SHM_RANK` | required | [`rank`](Self::rank) |
    /// | `COBRE_SHM_SIZE` | required | [`size`](Self::size) |
    /// | `COBRE_SHM_TIMEOUT_SECS` | 60 | [`timeout`](Self::timeout), fractions allowed, 0 = for ever |
    /// | `COBRE_SHM_CONNECT_TIMEOUT_MS` | 30000 | [`connect_timeout`](Self::connect_timeout) |
    /// | `COBRE_JOB_ID` | none | [`job_id`](Self::job_id) |
    ///
    /// A variable that is empty counts as not set.
    ///
    /// # Errors
    ///
    /// As [`from_map`](Self::from_map); also for a value that is not UTF-8.
    pub fn from_env() -> Result<Self, InitError> {
        let map = environment(&[NAME, RANK, SIZE, TIMEOUT, CONNECT_TIMEOUT, JOB_ID])?;
        Self::from_map(&map)
    }

    /// Reads the configuration from a map of variables, without looking at anything else.
    ///
    /// # Errors
    ///
    /// [`MissingConfiguration`](crate::InitErrorKind::MissingConfiguration) naming every required
    /// variable that is missing, [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration)
    /// for a value that cannot be used.
    ///
    /// ```
    /// use comm_shm::{InitErrorKind, ShmConfig};
    ///
    /// let error = ShmConfig::from_map(&Default::default()).unwrap_err();
    /// assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
    /// assert_eq!(error.variables, ["COBRE_SHM_NAME", "COBRE_SHM_RANK", "COBRE_SHM_SIZE"]);
    /// ```
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, InitError> {
        let mut reader = Reader::new(map);
        let name = reader.required(NAME);
        let (rank, size) = (reader.required_number(RANK), reader.required_number(SIZE));
        let timeout = reader.seconds(TIMEOUT);
        let connect_timeout = reader.millis(CONNECT_TIMEOUT);
        let job_id = reader.text(JOB_ID);
        reader.finish()?;
        // Each is there, or the reader has said so.
        let mut config = Self::new(
            name.unwrap_or_default(),
            rank.unwrap_or_default(),
            size.unwrap_or_default(),
        );
        if let Some(timeout) = timeout {
            config.timeout = (!timeout.is_zero()).then_some(timeout);
        }
        config.connect_timeout = connect_timeout.unwrap_or(config.connect_timeout);
        config.job_id = job_id.map(str::to_owned);
        config.check()?;
        Ok(config)
    }

    /// Checks what can be checked before anything is opened.
    pub(crate) fn check(&self) -> Result<(), InitError> {
        let Self {
            name, rank, size, ..
        } = self;
        let invalid =
            |variables: &[&str], message: String| Err(InitError::invalid(variables, message));
        if name.is_empty() || name == "." || name == ".." {
            return invalid(&[NAME], format!("{NAME} is {name:?}; give the job a name"));
        }
        if name.contains(['/', '\0']) {
            let message = format!("{NAME} is {name:?}; a name has no slash and no NUL in it");
            return invalid(&[NAME], message);
        }
        if name.len() > LONGEST_NAME {
            let message = format!(
                "{NAME} has {} bytes ({:?}..); {LONGEST_NAME} is the most",
                name.len(),
                name.chars().take(20).collect::<String>()
            );
            return invalid(&[NAME], message);
        }
        if *size == 0 || *size > MOST_RANKS {
            let message = format!("{SIZE} is {size}; a job has 1 to {MOST_RANKS} ranks");
            return invalid(&[SIZE], message);
        }
        if rank >= size {
            let message = format!(
                "{RANK} is {rank} and {SIZE} is {size}; ranks go from 0 to {}",
                size - 1
            );
            return invalid(&[RANK, SIZE], message);
        }
        if let Some(id) = self.job_id.as_ref().filter(|id| id.len() > LONGEST_JOB_ID) {
            let message = format!(
                "{JOB_ID} has {} bytes; {LONGEST_JOB_ID} is the most",
                id.len()
            );
            return invalid(&[JOB_ID], message);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
