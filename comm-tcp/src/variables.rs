//! The environment variables: their names, and a reader that finds all faults before it gives up.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::net::IpAddr;
use std::str::FromStr;
use std::time::Duration;

use crate::error::{InitError, InitErrorKind};

pub(crate) const COORDINATOR: &str = "COBRE_TCP_COORDINATOR";
pub(crate) const PORT: &str = "COBRE_TCP_PORT";
pub(crate) const RANK: &str = "COBRE_TCP_RANK";
pub(crate) const SIZE: &str = "COBRE_TCP_SIZE";
pub(crate) const TIMEOUT: &str = "COBRE_TCP_TIMEOUT_SECS";
pub(crate) const CONNECT_TIMEOUT: &str = "COBRE_TCP_CONNECT_TIMEOUT_MS";
pub(crate) const BIND_ADDR: &str = "COBRE_TCP_BIND_ADDR";
pub(crate) const SECRET: &str = "COBRE_TCP_SECRET";
pub(crate) const SECRET_FILE: &str = "COBRE_TCP_SECRET_FILE";
pub(crate) const INSECURE: &str = "COBRE_TCP_INSECURE";
pub(crate) const LISTEN_FD: &str = "COBRE_TCP_LISTEN_FD";
pub(crate) const JOB_ID: &str = "COBRE_JOB_ID";

/// All of them, in the order of the documentation.
pub(crate) const ALL: [&str; 12] = [
    COORDINATOR,
    PORT,
    RANK,
    SIZE,
    TIMEOUT,
    CONNECT_TIMEOUT,
    BIND_ADDR,
    SECRET,
    SECRET_FILE,
    INSECURE,
    LISTEN_FD,
    JOB_ID,
];

/// Reads values from a map and collects what is wrong with them.
pub(crate) struct Reader<'a> {
    map: &'a BTreeMap<String, String>,
    missing: Vec<&'static str>,
    faulty: Vec<&'static str>,
    messages: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(map: &'a BTreeMap<String, String>) -> Self {
        Self {
            map,
            missing: Vec::new(),
            faulty: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Gives the trimmed value; an empty one counts as not set.
    pub(crate) fn text(&self, variable: &'static str) -> Option<&'a str> {
        let value = self.map.get(variable)?.trim();
        (!value.is_empty()).then_some(value)
    }

    pub(crate) fn required(&mut self, variable: &'static str) -> Option<&'a str> {
        let value = self.text(variable);
        if value.is_none() {
            self.missing.push(variable);
        }
        value
    }

    pub(crate) fn required_number<N: FromStr<Err: Display>>(
        &mut self,
        variable: &'static str,
    ) -> Option<N> {
        self.required(variable)?;
        self.number(variable)
    }

    pub(crate) fn number<N: FromStr<Err: Display>>(&mut self, variable: &'static str) -> Option<N> {
        self.parse(variable, "give a whole number", str::parse)
    }

    pub(crate) fn address(&mut self, variable: &'static str) -> Option<IpAddr> {
        self.parse(
            variable,
            "give an address such as 10.0.0.5 or ::",
            IpAddr::from_str,
        )
    }

    pub(crate) fn seconds(&mut self, variable: &'static str) -> Option<Duration> {
        self.parse(variable, "give seconds, 0 waits for ever", |value| {
            let seconds: f64 = value.parse().map_err(|reason| format!("{reason}"))?;
            Duration::try_from_secs_f64(seconds).map_err(|reason| reason.to_string())
        })
    }

    pub(crate) fn switch(&mut self, variable: &'static str) -> Option<bool> {
        self.parse(variable, "give 0 or 1", |value| match value {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err("neither 0 nor 1"),
        })
    }

    /// Notes what is wrong with `variables`, unless something is known to be wrong with one of them.
    pub(crate) fn fault(&mut self, variables: &[&'static str], message: String) {
        let known = |v: &&'static str| self.missing.contains(v) || self.faulty.contains(v);
        if !variables.iter().any(known) {
            self.faulty.extend(variables);
            self.messages.push(message);
        }
    }

    pub(crate) fn finish(mut self) -> Result<(), InitError> {
        if self.missing.is_empty() && self.faulty.is_empty() {
            return Ok(());
        }
        let kind = if self.missing.is_empty() {
            InitErrorKind::InvalidConfiguration
        } else {
            let all = self.missing.join(", ");
            self.messages.insert(
                0,
                format!(
                    "{all} not set; start the ranks with comm-run, which sets them, or set all of \
                     {COORDINATOR}, {RANK} and {SIZE} yourself"
                ),
            );
            InitErrorKind::MissingConfiguration
        };
        let mut variables = self.missing;
        variables.extend(self.faulty);
        Err(InitError::new(kind, &variables, self.messages.join("; ")))
    }

    fn parse<V, E: Display>(
        &mut self,
        variable: &'static str,
        advice: &str,
        parse: impl FnOnce(&str) -> Result<V, E>,
    ) -> Option<V> {
        let value = self.text(variable)?;
        match parse(value) {
            Ok(parsed) => Some(parsed),
            Err(reason) => {
                self.fault(
                    &[variable],
                    format!("{variable} is {value:?}: {reason}; {advice}"),
                );
                None
            }
        }
    }
}
