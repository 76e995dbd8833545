//! Where the segment is found, and how long a rank waits.

use std::collections::BTreeMap;
use std::time::Duration;

use comm_kit::config::{self, Faults, Reader, environment};

use crate::error::InitError;

/// The maximum number of ranks of a segment.
pub(crate) const MOST_RANKS: usize = 1024;

/// The longest name of a file on the supported systems.
const LONGEST_NAME: usize = 255;

/// The longest job id; it is stored in the header of the segment.
pub(crate) const LONGEST_JOB_ID: usize = 256;

const NAME: &str = "COBRE_SHM_NAME";
const RANK: &str = "COBRE_SHM_RANK";
const SIZE: &str = "COBRE_SHM_SIZE";
pub(crate) const TIMEOUT: &str = "COBRE_SHM_TIMEOUT_SECS";
const CONNECT_TIMEOUT: &str = "COBRE_SHM_CONNECT_TIMEOUT_MS";
const ONE_COPY: &str = "COBRE_SHM_ONE_COPY";
const JOB_ID: &str = "COBRE_JOB_ID";

/// Describes where one rank finds the segment of its job, and how long it waits for the others.
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
    /// The name of the job's segment: the same on every rank, and unique to this job on the machine.
    pub name: String,
    /// The rank of this process, in `0..size`.
    pub rank: usize,
    /// The number of ranks.
    pub size: usize,
    /// How long a collective waits for a rank that is alive but absent; `None` and 0 disable the timeout.
    pub timeout: Option<Duration>,
    /// How long [`attach`](crate::ShmBackend::attach) waits for all ranks.
    pub connect_timeout: Duration,
    /// Whether ranks read large payloads directly from each other's memory.
    pub one_copy: OneCopy,
    /// Identifies the job; must agree between the ranks.
    pub job_id: Option<String>,
}

/// Whether ranks read large payloads directly from each other's memory, through the kernel, instead of
/// through the segment: one copy instead of two.
///
/// All ranks of a job use the same method: if one of them may not or cannot read directly, none does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OneCopy {
    /// Wherever the system permits it, which is determined by trying.
    #[default]
    Auto,
    /// As [`Auto`](Self::Auto), and this process permits those that its parent started to read its memory
    /// (`PR_SET_PTRACER`). Needed where Yama restricts tracing, as several distributions do.
    On,
    /// Never.
    Off,
}

impl ShmConfig {
    /// Creates a configuration with the default timeouts: 60 s in a collective, 30 s at start-up. A leading
    /// slash of the name, which `shm_open` requires, is removed.
    pub fn new(name: impl Into<String>, rank: usize, size: usize) -> Self {
        let mut name = name.into();
        if name.starts_with('/') {
            name.remove(0);
        }
        Self {
            name,
            rank,
            size,
            timeout: Some(config::TIMEOUT),
            connect_timeout: config::CONNECT_TIMEOUT,
            one_copy: OneCopy::Auto,
            job_id: None,
        }
    }

    /// Reads the configuration from the environment of this process.
    ///
    /// | variable | default | field |
    /// |---|---|---|
    /// | `COBRE_SHM_NAME` | required | [`name`](Self::name), without one slash in front |
    /// | `COBRE_SHM_RANK` | required | [`rank`](Self::rank) |
    /// | `COBRE_SHM_SIZE` | required | [`size`](Self::size) |
    /// | `COBRE_SHM_TIMEOUT_SECS` | 60 | [`timeout`](Self::timeout), fractions allowed, 0 = no timeout |
    /// | `COBRE_SHM_CONNECT_TIMEOUT_MS` | 30000 | [`connect_timeout`](Self::connect_timeout) |
    /// | `COBRE_SHM_ONE_COPY` | auto | [`one_copy`](Self::one_copy): `auto`, `1` or `0` |
    /// | `COBRE_JOB_ID` | none | [`job_id`](Self::job_id) |
    ///
    /// An empty variable counts as not set.
    ///
    /// # Errors
    ///
    /// As [`from_map`](Self::from_map); also for a value that is not UTF-8.
    pub fn from_env() -> Result<Self, InitError> {
        let map = environment(&[NAME, RANK, SIZE, TIMEOUT, CONNECT_TIMEOUT, ONE_COPY, JOB_ID])?;
        Self::from_map(&map)
    }

    /// Reads the configuration from a map of variables, and accesses nothing else.
    ///
    /// # Errors
    ///
    /// A single error that lists everything missing or wrong:
    /// [`MissingConfiguration`](crate::InitErrorKind::MissingConfiguration) if a required variable is
    /// missing, otherwise [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration).
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
        let timeout = reader.timeout(TIMEOUT);
        let connect_timeout = reader.millis(CONNECT_TIMEOUT);
        let one_copy = reader.parse(ONE_COPY, "give auto, 1 or 0", |value| match value {
            "auto" => Ok(OneCopy::Auto),
            "1" => Ok(OneCopy::On),
            "0" => Ok(OneCopy::Off),
            _ => Err("no such setting"),
        });
        let job_id = reader.text(JOB_ID);
        // Each is set, or its absence is one of the problems.
        let config = Self {
            timeout,
            connect_timeout: connect_timeout.unwrap_or(config::CONNECT_TIMEOUT),
            one_copy: one_copy.unwrap_or_default(),
            job_id: job_id.map(str::to_owned),
            ..Self::new(
                name.unwrap_or_default(),
                rank.unwrap_or_default(),
                size.unwrap_or_default(),
            )
        };
        config.find_faults(reader.faults());
        reader.finish()?;
        Ok(config)
    }

    /// Checks what can be checked before anything is opened.
    pub(crate) fn check(&self) -> Result<(), InitError> {
        let mut faults = Faults::default();
        self.find_faults(&mut faults);
        faults.finish()
    }

    fn find_faults(&self, faults: &mut Faults) {
        let Self { name, .. } = self;
        if name.is_empty() || name == "." || name == ".." {
            faults.add(&[NAME], format!("{NAME} is {name:?}; give the job a name"));
        }
        if name.contains(['/', '\0']) {
            let message = format!("{NAME} is {name:?}; a name contains no slash and no NUL");
            faults.add(&[NAME], message);
        }
        if name.len() > LONGEST_NAME {
            let message = format!(
                "{NAME} has {} bytes ({:?}..); the maximum is {LONGEST_NAME}",
                name.len(),
                name.chars().take(20).collect::<String>()
            );
            faults.add(&[NAME], message);
        }
        faults.check_rank(RANK, self.rank, SIZE, self.size, MOST_RANKS);
        if let Some(id) = self.job_id.as_ref().filter(|id| id.len() > LONGEST_JOB_ID) {
            let message = format!(
                "{JOB_ID} has {} bytes; the maximum is {LONGEST_JOB_ID}",
                id.len()
            );
            faults.add(&[JOB_ID], message);
        }
    }
}

#[cfg(test)]
mod tests;
