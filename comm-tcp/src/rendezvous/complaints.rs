//! Refused connections: logged, up to a limit, and remembered for the error of rank 0.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::handshake::Status;
use crate::variables;

/// How many lines of a kind may be logged in a [`WINDOW`]; the others are counted.
const LINES: u32 = 10;

/// How long lines are counted before the count is logged.
const WINDOW: Duration = Duration::from_secs(10);

/// How many refusals of one class are remembered separately.
const REMEMBERED: usize = 4;

/// Lets a few lines pass and counts the others.
#[derive(Debug, Default)]
struct Quota {
    since: Option<Instant>,
    passed: u32,
    held: u64,
}

impl Quota {
    /// Returns whether a line may be logged now.
    fn pass(&mut self, now: Instant) -> bool {
        self.since.get_or_insert(now);
        if self.passed < LINES {
            self.passed += 1;
            return true;
        }
        self.held += 1;
        false
    }

    /// Returns how many lines were suppressed, once their time is over or at the end.
    fn settle(&mut self, now: Option<Instant>) -> u64 {
        let over = self.since.is_some_and(|since| {
            now.is_none_or(|now| now.saturating_duration_since(since) >= WINDOW)
        });
        if !over {
            return 0;
        }
        std::mem::take(self).held
    }
}

/// A kind of refusal, and how often it happened.
#[derive(Debug)]
struct Refusal {
    status: Status,
    rank: Option<u32>,
    address: IpAddr,
    times: u64,
}

/// Logs and remembers connections that were not accepted.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    dropped: Quota,
    refused: Quota,
    remembered: Vec<Refusal>,
}

impl Complaints {
    /// A connection ended before it proved anything.
    pub(crate) fn dropped(&mut self, address: SocketAddr, reason: &str, now: Instant) {
        if self.dropped.pass(now) {
            tracing::warn!(%address, reason, "dropped a connection that was not authenticated");
        }
    }

    /// A link was refused; `rank` is its rank if that is proved.
    pub(crate) fn refused(
        &mut self,
        address: SocketAddr,
        rank: Option<u32>,
        status: Status,
        now: Instant,
    ) {
        if self.refused.pass(now) {
            tracing::warn!(%address, ?rank, ?status, "refused a link");
        }
        self.remember(address.ip().to_canonical(), rank, status);
    }

    fn remember(&mut self, address: IpAddr, rank: Option<u32>, status: Status) {
        if why(status).is_none() {
            return;
        }
        let same = |known: &&mut Refusal| {
            (known.status, known.rank) == (status, rank)
                && (rank.is_some() || known.address == address)
        };
        if let Some(known) = self.remembered.iter_mut().find(same) {
            known.times += 1;
            known.address = address;
            return;
        }
        // Clients that proved nothing do not displace those that did.
        let class = |known: &&Refusal| known.rank.is_some() == rank.is_some();
        if self.remembered.iter().filter(class).count() < REMEMBERED {
            self.remembered.push(Refusal {
                status,
                rank,
                address,
                times: 1,
            });
        }
    }

    /// Logs how many lines were suppressed, once their time is over; without a time, at once.
    pub(crate) fn settle(&mut self, now: Option<Instant>) {
        match self.dropped.settle(now) {
            0 => {}
            count => tracing::warn!(
                count,
                "dropped more connections that were not authenticated"
            ),
        }
        match self.refused.settle(now) {
            0 => {}
            count => tracing::warn!(count, "refused more links"),
        }
    }

    /// Returns who was refused and why, as far as that may be the reason for a missing rank.
    pub(crate) fn reasons(&self) -> Option<String> {
        let mut text = String::new();
        for refusal in &self.remembered {
            let Some(why) = why(refusal.status) else {
                continue;
            };
            let separator = if text.is_empty() { "" } else { ", " };
            // Writing to a string does not fail.
            let _ = match refusal.rank {
                Some(rank) => write!(text, "{separator}rank {rank} at {}", refusal.address),
                None => write!(text, "{separator}an unknown process at {}", refusal.address),
            };
            let _ = write!(text, " ({why})");
        }
        (!text.is_empty()).then_some(text)
    }
}

/// What differed, from the perspective of rank 0; `None` for statuses of normal operation.
fn why(status: Status) -> Option<String> {
    Some(match status {
        Status::WrongProof => format!(
            "another secret: {} or {}",
            variables::SECRET,
            variables::SECRET_FILE
        ),
        Status::OtherSize => format!("another {}", variables::SIZE),
        Status::OtherJob => format!("another {}", variables::JOB_ID),
        Status::OtherVersion => "another version of this library".to_owned(),
        Status::OtherLayout => "another byte order or pointer width".to_owned(),
        Status::NoSuchRank => format!("an invalid {}", variables::RANK),
        Status::Taken => format!("another process holds this {}", variables::RANK),
        Status::OtherEncryption => format!("another {}", variables::ENCRYPT),
        Status::Relayed => "a proxy forwards its bytes".to_owned(),
        Status::Welcome | Status::OtherSession | Status::NotExpected => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many connect, the log stays readable and contains their number.
    #[test]
    fn a_flood_is_a_few_lines_and_a_count() {
        let begin = Instant::now();
        let mut quota = Quota::default();
        let passed = (0..4000).filter(|_| quota.pass(begin)).count();
        assert_eq!(passed, 10);
        assert_eq!(quota.settle(Some(begin + WINDOW / 2)), 0);
        assert_eq!(quota.settle(Some(begin + WINDOW)), 3990);
        assert_eq!(quota.settle(Some(begin + 2 * WINDOW)), 0);
        assert!(quota.pass(begin + 2 * WINDOW));
        assert_eq!(quota.settle(None), 0);
    }

    /// A flood of strangers does not displace the mistake of a rank of the job.
    #[test]
    fn strangers_do_not_hide_what_a_rank_did_wrong() {
        let mut complaints = Complaints::default();
        for last in 0..200 {
            complaints.remember([10, 0, 9, last].into(), None, Status::WrongProof);
        }
        complaints.remember([10, 0, 0, 3].into(), Some(2), Status::OtherSize);
        let reasons = complaints.reasons().unwrap();
        assert!(
            reasons.contains("rank 2 at 10.0.0.3 (another COBRE_TCP_SIZE)"),
            "{reasons}"
        );
        assert!(reasons.len() < 600, "{reasons}");
    }

    /// Neither do statuses of normal operation, such as those of reconnecting ranks.
    #[test]
    fn ranks_that_come_again_do_not_hide_what_a_rank_did_wrong() {
        let mut complaints = Complaints::default();
        for rank in 1..5 {
            for status in [Status::NotExpected, Status::OtherSession] {
                complaints.remember([10, 0, 0, 2].into(), Some(rank), status);
            }
        }
        complaints.remember([10, 0, 0, 3].into(), Some(7), Status::OtherSize);
        let reasons = complaints.reasons().unwrap_or_default();
        assert!(reasons.contains("rank 7 at 10.0.0.3"), "{reasons:?}");
    }
}
