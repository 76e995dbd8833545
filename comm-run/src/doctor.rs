//! `comm-run doctor`: problems of this machine that affect jobs, and what to do about them.

mod machine;
mod network;
mod room;

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// No problem.
    Fine,
    /// Some jobs will fail or be slow.
    Warning,
    /// No job can run.
    Problem,
}

/// The result of one check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    what: &'static str,
    text: String,
    /// What to do, if anything.
    advice: Option<String>,
}

impl Finding {
    fn fine(what: &'static str, text: impl Into<String>) -> Self {
        Self {
            level: Level::Fine,
            what,
            text: text.into(),
            advice: None,
        }
    }

    fn warning(what: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            advice: Some(advice.into()),
            ..Self::fine(what, text)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Fine => "ok",
            Level::Warning => "warning",
            Level::Problem => "problem",
        };
        write!(f, "{level:<8} {}: {}", self.what, self.text)?;
        match &self.advice {
            Some(advice) => write!(f, "; {advice}"),
            None => Ok(()),
        }
    }
}

/// Runs all checks.
pub(crate) fn examine() -> Vec<Finding> {
    let (mut memory, mut loopback) = (room::shared_memory(), network::loopback());
    if memory.level > Level::Fine && loopback.level > Level::Fine && !room::usable() {
        // Neither backend can connect the ranks.
        memory.level = Level::Problem;
        loopback.level = Level::Problem;
    }
    let mut findings = vec![memory];
    findings.extend(room::ours());
    findings.extend(room::of_mpi());
    findings.extend([room::open_files(), room::processes()]);
    findings.extend([machine::processors(), machine::memory(), machine::mpi()]);
    findings.extend([loopback, network::usual_port(), machine::clock()]);
    findings.extend(variables());
    findings
}

/// Finds variables whose names look like ours although no code reads them.
fn variables() -> Vec<Finding> {
    let unknown = comm_kit::variables::unknown_here().into_iter();
    let warning = |sentence: String| {
        // Each sentence is a statement, a semicolon and the advice.
        let (text, advice) = sentence.split_once("; ").unwrap_or((&sentence, ""));
        Finding::warning("variables", text, advice)
    };
    unknown.map(warning).collect()
}

/// Removes the shared-memory segments of killed jobs.
pub(crate) fn clean() -> Finding {
    room::clean()
}

/// Formats a number of bytes with a unit, rounded down to a tenth.
fn bytes(count: u64) -> String {
    let units = ["KiB", "MiB", "GiB", "TiB"];
    let unit = (1..=units.len())
        .rev()
        .find(|&unit| count >> (10 * unit) > 0);
    match unit {
        Some(unit) => {
            let tenths = (u128::from(count) * 10) >> (10 * unit);
            format!("{}.{} {}", tenths / 10, tenths % 10, units[unit - 1])
        }
        None => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Finding, bytes};

    #[test]
    fn bytes_are_rounded_down_to_a_tenth() {
        for (count, text) in [
            (0, "0 bytes"),
            (1023, "1023 bytes"),
            (1024, "1.0 KiB"),
            (64 << 20, "64.0 MiB"),
            ((3 << 30) + (1 << 29), "3.5 GiB"),
            (u64::MAX, "16777215.9 TiB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn a_line_has_the_level_the_thing_and_the_advice() {
        assert_eq!(
            Finding::fine("sky", "blue").to_string(),
            "ok       sky: blue"
        );
        let warning = Finding::warning("sky", "grey", "take a coat");
        assert_eq!(warning.to_string(), "warning  sky: grey; take a coat");
    }
}
