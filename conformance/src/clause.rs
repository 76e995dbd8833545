//! The clauses of the contract, by their numbers.

use std::fmt;

/// A clause of the contract that every backend keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Clause {
    /// Identity: rank in `0..size`, unique, constant.
    C1,
    /// `allgatherv`: block `r` holds the data of rank `r`; no rank returns before all have contributed.
    C2,
    /// `allreduce`: a left fold in rank order, the same bits everywhere.
    C3,
    /// `broadcast`: every rank ends with the buffer of the root.
    C4,
    /// `barrier`: no rank leaves before all have entered.
    C5,
    /// Sequencing: thousands back to back, any mix, no interference.
    C6,
    /// Sizes: from 0 bytes to beyond 4 GiB per call.
    C7,
    /// Many communicators at once; concurrent collectives on one are refused.
    C8,
    /// Shared regions and their phases.
    C9,
    /// Mismatch: if ranks call different things, all of them get an error.
    C10,
    /// Refusal: invalid arguments on one rank are an error on all, without further effects.
    C11,
    /// Failure: if a rank dies or never enters a call, the others get an error in bounded time.
    C12,
    /// After a fatal error every call returns the first cause again, at once.
    C13,
    /// Clean end: nothing is left behind, and the next job starts at once.
    C14,
    /// Gathered regions: an exchange shows the parts of all ranks to all.
    C15,
}

impl Clause {
    /// All clauses, in order.
    pub const ALL: [Self; 15] = [
        Self::C1,
        Self::C2,
        Self::C3,
        Self::C4,
        Self::C5,
        Self::C6,
        Self::C7,
        Self::C8,
        Self::C9,
        Self::C10,
        Self::C11,
        Self::C12,
        Self::C13,
        Self::C14,
        Self::C15,
    ];

    /// Returns the clause in two or three words, for tables.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::C1 => "identity",
            Self::C2 => "allgatherv",
            Self::C3 => "allreduce",
            Self::C4 => "broadcast",
            Self::C5 => "barrier",
            Self::C6 => "sequencing",
            Self::C7 => "sizes",
            Self::C8 => "many communicators",
            Self::C9 => "regions",
            Self::C10 => "mismatch",
            Self::C11 => "refusal",
            Self::C12 => "failure",
            Self::C13 => "after a fatal error",
            Self::C14 => "clean end",
            Self::C15 => "gathered regions",
        }
    }
}

impl fmt::Display for Clause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{self:?}"))
    }
}
