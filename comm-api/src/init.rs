//! Why a rank could not join its job, and how backends read their variables: alike.
//!
//! Every backend re-exports [`InitError`]. A program reads it there, and reads it once.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;
use std::time::Duration;

/// Tells why the constructor of a backend failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct InitError {
    /// What kind of failure it was.
    pub kind: InitErrorKind,
    /// The environment variables that are missing, hold what cannot be used, or can be changed to
    /// get past the failure.
    pub variables: Vec<String>,
    /// What failed, and what to do about it.
    pub message: String,
}

/// Tells what kind of failure an [`InitError`] is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum InitErrorKind {
    /// A required variable is not set.
    MissingConfiguration,
    /// A value cannot be used, alone or with those of the other ranks.
    InvalidConfiguration,
    /// The configuration is right, and the ranks could still not come together.
    Failed,
}

impl InitError {
    /// Makes an error of any kind.
    pub fn new(kind: InitErrorKind, variables: &[&str], message: impl Into<String>) -> Self {
        Self {
            kind,
            variables: variables.iter().map(ToString::to_string).collect(),
            message: message.into(),
        }
    }

    /// Makes an error about values that cannot be used.
    pub fn invalid(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::InvalidConfiguration, variables, message)
    }

    /// Makes an error of a start that did not succeed; `variables` are those worth changing.
    pub fn failed(variables: &[&str], message: impl Into<String>) -> Self {
        Self::new(InitErrorKind::Failed, variables, message)
    }
}

/// Takes `variables` from the environment of this process.
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

/// Reads values from a map of variables, and finds all faults before it gives up.
///
/// Values are trimmed; an empty one counts as not set.
///
/// ```
/// use comm_api::init::{InitErrorKind, Reader};
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
    required: Vec<&'static str>,
    missing: Vec<&'static str>,
    faulty: Vec<&'static str>,
    messages: Vec<String>,
}

impl<'a> Reader<'a> {
    /// Begins with a map of variables.
    #[must_use]
    pub fn new(map: &'a BTreeMap<String, String>) -> Self {
        Self {
            map,
            required: Vec::new(),
            missing: Vec::new(),
            faulty: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Gives a value, if it is set.
    #[must_use]
    pub fn text(&self, variable: &'static str) -> Option<&'a str> {
        let value = self.map.get(variable)?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// Gives a value that must be set.
    pub fn required(&mut self, variable: &'static str) -> Option<&'a str> {
        self.required.push(variable);
        let value = self.text(variable);
        if value.is_none() {
            self.missing.push(variable);
        }
        value
    }

    /// Gives a whole number that must be set.
    pub fn required_number<N: FromStr<Err: Display>>(
        &mut self,
        variable: &'static str,
    ) -> Option<N> {
        self.required(variable)?;
        self.number(variable)
    }

    /// Gives a whole number, if it is set.
    pub fn number<N: FromStr<Err: Display>>(&mut self, variable: &'static str) -> Option<N> {
        self.parse(variable, "give a whole number", str::parse)
    }

    /// Gives seconds, which may be fractional, if they are set.
    pub fn seconds(&mut self, variable: &'static str) -> Option<Duration> {
        self.parse(variable, "give seconds, 0 waits for ever", |value| {
            let seconds: f64 = value.parse().map_err(|reason| format!("{reason}"))?;
            Duration::try_from_secs_f64(seconds).map_err(|reason| reason.to_string())
        })
    }

    /// Gives milliseconds, if they are set.
    pub fn millis(&mut self, variable: &'static str) -> Option<Duration> {
        self.parse(variable, "give whole milliseconds", |value| {
            value.parse().map(Duration::from_millis)
        })
    }

    /// Gives whether a switch is on, if it is set.
    pub fn switch(&mut self, variable: &'static str) -> Option<bool> {
        self.parse(variable, "give 0 or 1", |value| match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err("neither 0 nor 1"),
        })
    }

    /// Gives a value of any other form, if it is set; `advice` says what would be right.
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
            self.fault(&[variable], message);
        }
        parsed.ok()
    }

    /// Notes what is wrong with `variables`, unless one of them is known to be wrong already.
    pub fn fault(&mut self, variables: &[&'static str], message: String) {
        let known = |v: &&'static str| self.missing.contains(v) || self.faulty.contains(v);
        if !variables.iter().any(known) {
            self.faulty.extend(variables);
            self.messages.push(message);
        }
    }

    /// Ends the reading.
    ///
    /// # Errors
    ///
    /// One error about everything that is missing or wrong.
    pub fn finish(self) -> Result<(), InitError> {
        let Self {
            required,
            missing,
            faulty,
            mut messages,
            ..
        } = self;
        if missing.is_empty() && faulty.is_empty() {
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
