//! How long a state lasts.

use std::time::{Duration, Instant};

/// A time that begins with the first look at it.
#[derive(Debug)]
pub(super) struct Limit {
    length: Option<Duration>,
    until: Option<Instant>,
}

impl Limit {
    pub(super) fn of(length: impl Into<Option<Duration>>) -> Self {
        Self {
            length: length.into(),
            until: None,
        }
    }

    /// Returns what is left of it, if it ends.
    pub(super) fn left(&mut self, now: Instant) -> Option<Duration> {
        let end = now.checked_add(self.length?)?;
        let until = *self.until.get_or_insert(end);
        Some(until.saturating_duration_since(now))
    }
}
