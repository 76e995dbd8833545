//! The configuration of a rank before MPI starts; rank and size come from MPI.

use std::collections::BTreeMap;
use std::time::Duration;

use comm_kit::config::{Reader, TIMEOUT, environment};

use crate::error::InitError;

const REDUCE: &str = "COBRE_MPI_REDUCE";
pub(crate) const CHECK: &str = "COBRE_COMM_CHECK";
const JOB_ID: &str = "COBRE_JOB_ID";
pub(crate) const TIMEOUT_SECS: &str = "COBRE_MPI_TIMEOUT_SECS";

/// Describes how one rank uses MPI; all ranks of a job must agree on it.
///
/// Nothing is required: rank and size come from the launcher of MPI.
///
/// ```
/// use comm_mpi::{MpiConfig, MpiReduce};
///
/// let mut config = MpiConfig::new();
/// assert_eq!(config.reduce, MpiReduce::Ordered);
/// config.check = true;
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpiConfig {
    /// Which code adds floats.
    pub reduce: MpiReduce,
    /// Whether the ranks compare their calls, before every call.
    ///
    /// If enabled, a mismatch, a refusal, a rank that never enters a call and a rank that has left are errors
    /// that name the rank. If disabled, such a job hangs or computes nonsense, as MPI programs do. Costs a
    /// round of small messages per call.
    pub check: bool,
    /// How long a call waits for a rank that never enters it, if [`check`](Self::check) is on; `None` and
    /// zero disable the timeout.
    pub timeout: Option<Duration>,
    /// Identifies the job; must agree between the ranks.
    pub job_id: Option<String>,
}

/// Which code adds floats.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MpiReduce {
    /// This crate, in rank order: the same bits as every other backend.
    #[default]
    Ordered,
    /// `MPI_Allreduce`, in an unspecified order: bits may differ between sizes, machines and runs. Minima and
    /// maxima of floats stay ordered, since MPI does not specify how they treat NaN.
    Native,
}

impl Default for MpiConfig {
    fn default() -> Self {
        Self::new()
    }
}

impl MpiConfig {
    /// Creates the default configuration: ordered reductions, no checks between the ranks, and a timeout of
    /// one minute for checked calls.
    #[must_use]
    pub fn new() -> Self {
        Self {
            reduce: MpiReduce::default(),
            check: false,
            timeout: Some(TIMEOUT),
            job_id: None,
        }
    }

    /// Reads the configuration from the environment of this process.
    ///
    /// | variable | default | field |
    /// |---|---|---|
    /// | `COBRE_MPI_REDUCE` | `ordered` | [`reduce`](Self::reduce), `ordered` or `native` |
    /// | `COBRE_COMM_CHECK` | 0 | [`check`](Self::check), 0 or 1 |
    /// | `COBRE_MPI_TIMEOUT_SECS` | 60 | [`timeout`](Self::timeout) in seconds, fractions allowed, 0 = no timeout |
    /// | `COBRE_JOB_ID` | none | [`job_id`](Self::job_id) |
    ///
    /// An empty variable counts as not set.
    ///
    /// # Errors
    ///
    /// As [`from_map`](Self::from_map); also for a value that is not UTF-8.
    pub fn from_env() -> Result<Self, InitError> {
        Self::from_map(&environment(&[REDUCE, CHECK, TIMEOUT_SECS, JOB_ID])?)
    }

    /// Reads the configuration from a map of variables, and accesses nothing else.
    ///
    /// # Errors
    ///
    /// [`InvalidConfiguration`](crate::InitErrorKind::InvalidConfiguration) for an unusable value.
    ///
    /// ```
    /// use comm_mpi::{InitErrorKind, MpiConfig};
    ///
    /// let map = [("COBRE_MPI_REDUCE".to_owned(), "fast".to_owned())].into();
    /// let error = MpiConfig::from_map(&map).unwrap_err();
    /// assert_eq!(error.kind, InitErrorKind::InvalidConfiguration);
    /// assert_eq!(error.variables, ["COBRE_MPI_REDUCE"]);
    /// ```
    pub fn from_map(map: &BTreeMap<String, String>) -> Result<Self, InitError> {
        let mut reader = Reader::new(map);
        let reduce = reader.parse(REDUCE, "give ordered or native", |value| {
            match value.to_ascii_lowercase().as_str() {
                "ordered" => Ok(MpiReduce::Ordered),
                "native" => Ok(MpiReduce::Native),
                _ => Err("neither"),
            }
        });
        let config = Self {
            reduce: reduce.unwrap_or_default(),
            check: reader.switch(CHECK).unwrap_or_default(),
            timeout: reader.timeout(TIMEOUT_SECS),
            job_id: reader.text(JOB_ID).map(str::to_owned),
        };
        reader.finish()?;
        Ok(config)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<MpiConfig, InitError> {
        let pairs = pairs.iter().map(|&(k, v)| (k.to_owned(), v.to_owned()));
        MpiConfig::from_map(&pairs.collect())
    }

    #[test]
    fn nothing_is_required() {
        assert_eq!(read(&[]), Ok(MpiConfig::new()));
        assert_eq!(
            read(&[
                (REDUCE, " "),
                (CHECK, ""),
                (TIMEOUT_SECS, " "),
                (JOB_ID, "")
            ]),
            Ok(MpiConfig::new())
        );
    }

    #[test]
    fn values_are_trimmed_and_read() {
        let config = read(&[(REDUCE, " Native "), (CHECK, "1"), (JOB_ID, " j ")]).unwrap();
        assert_eq!(config.reduce, MpiReduce::Native);
        assert!(config.check);
        assert_eq!(config.job_id.as_deref(), Some("j"));
    }

    #[test]
    fn timeouts_are_seconds_and_0_is_for_ever() {
        let timeout = |value| read(&[(TIMEOUT_SECS, value)]).map(|config| config.timeout);
        assert_eq!(MpiConfig::new().timeout, Some(Duration::from_mins(1)));
        assert_eq!(timeout("0.5"), Ok(Some(Duration::from_millis(500))));
        assert_eq!(timeout("0"), Ok(None));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        for (variable, value) in [
            (REDUCE, "fast"),
            (CHECK, "yes"),
            (CHECK, "2"),
            (TIMEOUT_SECS, "soon"),
            (TIMEOUT_SECS, "-1"),
        ] {
            let error = read(&[(variable, value)]).unwrap_err();
            assert_eq!(error.variables, [variable]);
            assert!(error.message.contains(value), "{error}");
        }
    }
}
