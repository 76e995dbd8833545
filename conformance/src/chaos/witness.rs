//! The testimony of a survivor: posted on the notice board, judged by the driver.

use std::fmt;
use std::time::Duration;

use comm_api::CommError;

/// The error of a survivor, and when it got it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Witness {
    /// The kind of the failure, or [`NO_START`].
    pub(crate) kind: String,
    /// The rank that was blamed.
    pub(crate) rank: Option<usize>,
    /// When the call was entered, on the clock that all processes share.
    pub(crate) entered: Duration,
    /// When the call returned.
    pub(crate) told: Duration,
    /// The delay caused by the machine, as this rank measured it.
    pub(crate) slack: Duration,
    /// The rank that a fence or a split blamed before, if one of them was the first to fail.
    pub(crate) before: Option<(String, Option<usize>)>,
    pub(crate) message: String,
}

/// The kind if the communicator did not even open.
pub(crate) const NO_START: &str = "NoStart";

/// The notice of a witness.
pub(crate) const NOTICE: &str = "witness";

/// Formats kind and rank of an error.
pub(crate) fn kind_and_rank(error: &CommError) -> (String, Option<usize>) {
    match error {
        CommError::CollectiveFailed { kind, rank, .. } => (format!("{kind:?}"), *rank),
        CommError::InvalidCommunicator { .. } => ("InvalidCommunicator".to_owned(), None),
        other => (format!("{other:?}"), None),
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rank = |rank: Option<usize>| rank.map_or("-".to_owned(), |rank| rank.to_string());
        let (kind, before) = match &self.before {
            Some((kind, blamed)) => (kind.as_str(), rank(*blamed)),
            None => ("-", "-".to_owned()),
        };
        write!(
            f,
            "{} {} {} {} {} {kind} {before} {}",
            self.kind,
            rank(self.rank),
            self.entered.as_nanos(),
            self.told.as_nanos(),
            self.slack.as_nanos(),
            self.message.escape_debug()
        )
    }
}

impl Witness {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.splitn(8, ' ');
        let mut word = || words.next();
        let rank = |text: &str| text.parse().ok();
        let time = |text: &str| text.parse().ok().map(Duration::from_nanos);
        Some(Self {
            kind: word()?.to_owned(),
            rank: rank(word()?),
            entered: time(word()?)?,
            told: time(word()?)?,
            slack: time(word()?)?,
            before: match (word()?, word()?) {
                ("-", _) => None,
                (kind, blamed) => Some((kind.to_owned(), rank(blamed))),
            },
            message: word()?.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_witness_reads_back() {
        let mut witness = Witness {
            kind: "PeerLost".to_owned(),
            rank: Some(3),
            entered: Duration::from_nanos(5),
            told: Duration::from_nanos(17),
            slack: Duration::from_millis(2),
            before: None,
            message: "rank 3 is gone".to_owned(),
        };
        assert_eq!(Witness::parse(&witness.to_string()), Some(witness.clone()));
        witness.before = Some(("PeerLost".to_owned(), None));
        witness.rank = None;
        assert_eq!(Witness::parse(&witness.to_string()), Some(witness));
        assert_eq!(Witness::parse("PeerLost 3"), None);
    }
}
