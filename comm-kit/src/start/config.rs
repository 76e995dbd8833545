//! How backends read their variables and check their configuration, reporting all problems at once.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

use crate::start::init::{InitError, InitErrorKind};

/// The default timeout of a collective that waits for a rank that is alive but absent.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// The default timeout of a start that waits for all ranks.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads `variables` from the environment of this process.
///
/// # Errors
///
/// [`InvalidConfiguration`](InitErrorKind::InvalidConfiguration) for a value that is not UTF-8.
pub fn environment(variables: &[&str]) -> Result<BTreeMap<String, String>, InitError> {
    let mut map = BTreeMap::new();
    for &variable in variables {
        if let Some(value) = std::env::var_os(variable) {
            let value = value.into_string().map_err(|value| {
                let message = format!("{variable} is not UTF-8: {}", value.display());
                InitError::invalid(&[variable], message)
            })?;
            map.insert(variable.to_owned(), value);
        }
    }
    Ok(map)
}

/// Collects the problems of a configuration, so that one error reports all of them.
///
/// ```
/// use comm_kit::config::Faults;
///
/// let mut faults = Faults::default();
/// faults.check_rank("JOB_RANK", 4, "JOB_SIZE", 4, 1024);
/// let error = faults.finish().unwrap_err();
/// assert_eq!(error.message, "JOB_RANK is 4 and JOB_SIZE is 4; ranks go from 0 to 3");
/// ```
#[derive(Debug, Default)]
pub struct Faults {
    required: Vec<&'static str>,
    missing: Vec<&'static str>,
    faulty: Vec<&'static str>,
    messages: Vec<String>,
}

impl Faults {
    /// Adds a problem with `variables`, unless a problem with one of them is known already.
    pub fn add(&mut self, variables: &[&'static str], message: impl Into<String>) {
        let known = |v: &&'static str| self.missing.contains(v) || self.faulty.contains(v);
        if !variables.iter().any(known) {
            self.faulty.extend(variables);
            self.messages.push(message.into());
        }
    }

    /// Checks that there are 1 to `most` ranks and that `rank` is one of them.
    pub fn check_rank(
        &mut self,
        rank_variable: &'static str,
        rank: usize,
        size_variable: &'static str,
        size: usize,
        most: usize,
    ) {
        if size == 0 || size > most {
            let message = format!("{size_variable} is {size}; a job has 1 to {most} ranks");
            self.add(&[size_variable], message);
        } else if rank >= size {
            let message = format!(
                "{rank_variable} is {rank} and {size_variable} is {size}; ranks go from 0 to {}",
                size - 1
            );
            self.add(&[rank_variable, size_variable], message);
        }
    }

    /// Finishes the checks.
    ///
    /// # Errors
    ///
    /// A single error that lists everything missing or wrong.
    pub fn finish(self) -> Result<(), InitError> {
        let Self {
            required,
            missing,
            faulty,
            mut messages,
        } = self;
        if missing.is_empty() && messages.is_empty() {
            return Ok(());
        }
        let mut kind = InitErrorKind::InvalidConfiguration;
        if !missing.is_empty() {
            kind = InitErrorKind::MissingConfiguration;
            let (missing, required) = (missing.join(", "), required.join(", "));
            let message = format!(
                "{missing} not set; start the ranks with comm-run, which sets them, or set {required} yourself"
            );
            messages.insert(0, message);
        }
        let variables = [missing, faulty].concat();
        Err(InitError::new(kind, &variables, messages.join("; ")))
    }
}

/// Reads values from a map of variables, and collects all problems before it fails.
///
/// Values are trimmed; an empty one counts as not set.
///
/// ```
/// use comm_kit::InitErrorKind;
/// use comm_kit::config::Reader;
///
/// let map = [("JOB_SIZE".to_owned(), "many".to_owned())].into();
/// let mut reader = Reader::new(&map);
/// let (name, size) = (reader.required("JOB_NAME"), reader.required_number::<u32>("JOB_SIZE"));
/// assert_eq!((name, size), (None, None));
/// let error = reader.finish().unwrap_err();
/// assert_eq!(error.kind, InitErrorKind::MissingConfiguration);
/// assert_eq!(error.variables, ["JOB_NAME", "JOB_SIZE"]);
/// ```
#[derive(Debug)]
pub struct Reader<'a> {
    map: &'a BTreeMap<String, String>,
    faults: Faults,
}

impl<'a> Reader<'a> {
    /// Creates a reader of a map of variables.
    #[must_use]
    pub fn new(map: &'a BTreeMap<String, String>) -> Self {
        Self {
            map,
            faults: Faults::default(),
        }
    }

    /// Returns a value, if it is set.
    #[must_use]
    pub fn text(&self, variable: &'static str) -> Option<&'a str> {
        value(self.map, variable)
    }

    /// Returns a value that must be set.
    pub fn required(&mut self, variable: &'static str) -> Option<&'a str> {
        self.faults.required.push(variable);
        let value = self.text(variable);
        if value.is_none() {
            self.faults.missing.push(variable);
        }
        value
    }

    /// Returns a whole number that must be set.
    pub fn required_number<N: FromStr<Err: Display>>(
        &mut self,
        variable: &'static str,
    ) -> Option<N> {
        self.required(variable)?;
        self.number(variable)
    }

    /// Returns a whole number, if it is set.
    pub fn number<N: FromStr<Err: Display>>(&mut self, variable: &'static str) -> Option<N> {
        self.parse(variable, "give a whole number", str::parse)
    }

    /// Returns seconds, which may be fractional, if they are set.
    pub fn seconds(&mut self, variable: &'static str) -> Option<Duration> {
        self.parse(variable, "give seconds (0 disables the timeout)", |value| {
            let seconds: f64 = value.parse().map_err(|reason| format!("{reason}"))?;
            Duration::try_from_secs_f64(seconds).map_err(|reason| reason.to_string())
        })
    }

    /// Returns a timeout in seconds: [`TIMEOUT`] if the variable is not set, `None` (no timeout) if it is 0.
    pub fn timeout(&mut self, variable: &'static str) -> Option<Duration> {
        let timeout = self.seconds(variable).unwrap_or(TIMEOUT);
        (!timeout.is_zero()).then_some(timeout)
    }

    /// Returns milliseconds, if they are set.
    pub fn millis(&mut self, variable: &'static str) -> Option<Duration> {
        self.parse(variable, "give whole milliseconds", |value| {
            value.parse().map(Duration::from_millis)
        })
    }

    /// Returns whether a switch is on, if it is set.
    pub fn switch(&mut self, variable: &'static str) -> Option<bool> {
        self.parse(variable, "give 0 or 1", |value| match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err("neither 0 nor 1"),
        })
    }

    /// Returns a value of any other form, if it is set; `advice` describes valid values.
    pub fn parse<V, E: Display>(
        &mut self,
        variable: &'static str,
        advice: &str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        let value = self.text(variable)?;
        let parsed = parse(value);
        if let Err(reason) = &parsed {
            let message = format!("{variable} is {value:?}: {reason}; {advice}");
            self.faults.add(&[variable], message);
        }
        parsed.ok()
    }

    /// Returns the problems found so far, so that checks across values can add to them.
    pub fn faults(&mut self) -> &mut Faults {
        &mut self.faults
    }

    /// Finishes reading.
    ///
    /// # Errors
    ///
    /// A single error that lists everything missing or wrong.
    pub fn finish(self) -> Result<(), InitError> {
        self.faults.finish()
    }
}

/// Returns the value of a variable, trimmed; empty and blank mean unset.
#[must_use]
pub fn value<'a>(map: &'a BTreeMap<String, String>, variable: &str) -> Option<&'a str> {
    let value = map.get(variable)?.trim();
    (!value.is_empty()).then_some(value)
}

/// Sets a variable that has no value yet, such as one that another launcher provides under its own name.
pub fn fill(map: &mut BTreeMap<String, String>, variable: &str, text: &str) {
    if value(map, variable).is_none() {
        map.insert(variable.to_owned(), text.to_owned());
    }
}
