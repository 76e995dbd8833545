//! The orders of the driver to the ranks it starts, passed through their environment.

use std::collections::BTreeMap;
use std::env;
use std::path::PathBuf;
use std::time::Duration;

/// Describes where the ranks of a job live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Placement {
    /// One process per rank.
    Processes,
    /// One process, one thread per rank.
    Threads,
}

/// What a process is to run; `rank` is `None` if one process holds all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orders {
    pub(crate) subject: String,
    pub(crate) case: String,
    pub(crate) rank: Option<usize>,
    pub(crate) size: usize,
    pub(crate) name: String,
    pub(crate) dir: PathBuf,
    pub(crate) round: usize,
    pub(crate) limit: Duration,
    pub(crate) programs: usize,
    pub(crate) seed: u64,
    /// The maximum number of calls of a case.
    pub(crate) most: usize,
}

const PREFIX: &str = "COMM_CONFORMANCE_";

/// The variable with the rank.
pub(crate) const RANK: &str = "COMM_CONFORMANCE_RANK";

/// The prefix of an order to take the rank from another variable, which a launcher sets.
const IN: &str = "in ";

/// Orders the rank to be taken from the first of `variables` that is set.
pub(crate) fn rank_in(variables: &[&str]) -> String {
    format!("{IN}{}", variables.join(" "))
}

impl Orders {
    /// Writes the orders as variables.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let rank = self.rank.map_or("all".to_owned(), |rank| rank.to_string());
        [
            ("SUBJECT", self.subject.clone()),
            ("CASE", self.case.clone()),
            ("RANK", rank),
            ("SIZE", self.size.to_string()),
            ("NAME", self.name.clone()),
            ("DIR", self.dir.to_string_lossy().into_owned()),
            ("ROUND", self.round.to_string()),
            ("LIMIT_MS", self.limit.as_millis().to_string()),
            ("PROGRAMS", self.programs.to_string()),
            ("SEED", self.seed.to_string()),
            ("MOST", self.most.to_string()),
        ]
        .into_iter()
        .map(|(key, value)| (format!("{PREFIX}{key}"), value))
        .collect()
    }

    /// Reads the orders of this process; `None` if it is not a rank.
    pub(crate) fn from_env() -> Option<Result<Self, String>> {
        let mut variables: BTreeMap<String, String> = env::vars()
            .filter_map(|(key, value)| Some((key.strip_prefix(PREFIX)?.to_owned(), value)))
            .collect();
        if let Some(names) = variables.get("RANK").and_then(|rank| rank.strip_prefix(IN)) {
            let rank = names.split(' ').find_map(|name| env::var(name).ok());
            let rank = rank.unwrap_or_else(|| format!("none of {names} is set"));
            variables.insert("RANK".to_owned(), rank);
        }
        variables
            .contains_key("CASE")
            .then(|| Self::from_map(&variables))
    }

    fn from_map(variables: &BTreeMap<String, String>) -> Result<Self, String> {
        let text = |key: &str| {
            variables
                .get(key)
                .ok_or_else(|| format!("{PREFIX}{key} is missing"))
        };
        let number = |key: &str| {
            text(key)?
                .parse::<u64>()
                .map_err(|reason| format!("{PREFIX}{key}: {reason}"))
        };
        let count = |key: &str| {
            usize::try_from(number(key)?).map_err(|reason| format!("{PREFIX}{key}: {reason}"))
        };
        Ok(Self {
            subject: text("SUBJECT")?.clone(),
            case: text("CASE")?.clone(),
            rank: match text("RANK")?.as_str() {
                "all" => None,
                _ => Some(count("RANK")?),
            },
            size: count("SIZE")?,
            name: text("NAME")?.clone(),
            dir: text("DIR")?.into(),
            round: count("ROUND")?,
            limit: Duration::from_millis(number("LIMIT_MS")?),
            programs: count("PROGRAMS")?,
            seed: number("SEED")?,
            most: count("MOST")?,
        })
    }

    /// Returns where the ranks of this job live.
    pub(crate) fn placement(&self) -> Placement {
        match self.rank {
            Some(_) => Placement::Processes,
            None => Placement::Threads,
        }
    }

    /// Returns the file that `rank` reports to.
    pub(crate) fn report(&self, rank: usize) -> PathBuf {
        self.dir.join(format!("report-{}-{rank}", self.round))
    }

    /// Returns the directory of the notices of this round.
    pub(crate) fn board(&self) -> PathBuf {
        self.dir.join(format!("board-{}", self.round))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_survive_the_environment() {
        let orders = Orders {
            subject: "shm".into(),
            case: "barrier::x".into(),
            rank: Some(3),
            size: 4,
            name: "cc-1".into(),
            dir: "jobs/a".into(),
            round: 1,
            limit: Duration::from_millis(1500),
            programs: 20,
            seed: u64::MAX,
            most: 200,
        };
        for rank in [Some(3), None] {
            let orders = Orders {
                rank,
                ..orders.clone()
            };
            let map = orders
                .variables()
                .into_iter()
                .map(|(key, value)| (key[PREFIX.len()..].to_owned(), value))
                .collect();
            assert_eq!(Orders::from_map(&map), Ok(orders));
        }
    }

    #[test]
    fn a_missing_order_is_named() {
        let error = Orders::from_map(&BTreeMap::new()).unwrap_err();
        assert!(error.contains("COMM_CONFORMANCE_SUBJECT"), "{error}");
    }
}
