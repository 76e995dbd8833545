//! The rules of the protocol that a model can take away, to show that it would notice.
//!
//! Outside of models every rule is kept, and asking costs nothing.

/// A rule, named where it is kept.
#[cfg_attr(not(loom), allow(dead_code, reason = "models break rules one by one"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A sleeper's bell is written before it looks again.
    FenceBeforeLook,
    /// A line is written before its rank looks for sleepers.
    FenceBeforeRing,
    /// A sleeper looks again after it wrote its bell.
    LookAgain,
    /// A line is published with release (I1, I2).
    Release,
    /// All ranks are seen at the last step before the next is written (I3).
    Presence,
    /// A rank has a line per parity.
    TwoLines,
    /// The first cause stands.
    FirstCause,
}

#[cfg(not(loom))]
#[inline]
pub(crate) const fn kept(_: Rule) -> bool {
    true
}

#[cfg(loom)]
static BROKEN: std::sync::Mutex<Option<Rule>> = std::sync::Mutex::new(None);

#[cfg(loom)]
pub(crate) fn kept(rule: Rule) -> bool {
    *BROKEN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
        != Some(rule)
}

/// Takes one rule away from all models of this process, until the next call.
#[cfg(all(test, loom))]
pub(crate) fn take_away(rule: Option<Rule>) {
    *BROKEN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner) = rule;
}
