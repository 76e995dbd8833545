//! What is measured: a call and its bytes.

use std::fmt::{self, Display, Formatter};

/// Names a call. `Broadcasts` follow each other without the barrier that goes before each `Broadcast`. `Copy` is no
/// collective: each rank copies in its own memory, all at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Op {
    Barrier,
    Allreduce,
    Broadcast,
    Broadcasts,
    Allgatherv,
    Copy,
}

impl Op {
    const ALL: [Self; 6] = [
        Self::Barrier,
        Self::Allreduce,
        Self::Broadcast,
        Self::Broadcasts,
        Self::Allgatherv,
        Self::Copy,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Allreduce => "allreduce",
            Self::Broadcast => "broadcast",
            Self::Broadcasts => "broadcasts",
            Self::Allgatherv => "allgatherv",
            Self::Copy => "copy",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|op| op.name() == name)
    }
}

/// Names a row: the vector's bytes for `allreduce` and `broadcast`, all that is gathered for `allgatherv`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Row {
    pub(super) op: Op,
    pub(super) bytes: u64,
}

/// Up to here a call is small: what counts is how fast the ranks meet, not how fast bytes move.
pub(super) const SMALL: u64 = 64 << 10;

/// Picks rows by their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Sizes {
    /// Up to 64 KiB
    Small,
    /// Beyond 64 KiB
    Large,
    /// All
    All,
}

impl Sizes {
    pub(super) fn has(self, row: Row) -> bool {
        match self {
            Self::Small => row.bytes <= SMALL,
            Self::Large => row.bytes > SMALL,
            Self::All => true,
        }
    }
}

impl Row {
    pub(super) const fn new(op: Op, bytes: u64) -> Self {
        Self { op, bytes }
    }

    /// Lists the rows that are compared with peers.
    pub(super) fn compared() -> Vec<Self> {
        let sizes = [
            (Op::Barrier, &[0][..]),
            (Op::Allreduce, &[32, 8 << 10, 1 << 20, 16 << 20]),
            (Op::Broadcast, &[8, 20_000_000]),
            (
                Op::Allgatherv,
                &[1 << 10, 64 << 10, 3_200_000, 64_000_000, 206_000_000],
            ),
        ];
        let rows = sizes.into_iter();
        rows.flat_map(|(op, sizes)| sizes.iter().map(move |&bytes| Self::new(op, bytes)))
            .collect()
    }

    /// Gives the row the way the measuring programs take it.
    pub(super) fn argument(self) -> String {
        format!("{}:{}", self.op.name(), self.bytes)
    }

    /// Gives the bytes that all ranks together allocate for the buffers of this row.
    pub(super) fn memory(self, ranks: u64) -> u64 {
        match self.op {
            Op::Barrier => 0,
            Op::Broadcast | Op::Broadcasts => ranks * self.bytes,
            Op::Allgatherv => (ranks + 1) * self.bytes,
            Op::Allreduce | Op::Copy => 2 * ranks * self.bytes,
        }
    }

    /// Names the call as in a figure's line.
    pub(super) const fn call(self) -> &'static str {
        self.op.name()
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.op.name())?;
        if self.op == Op::Barrier {
            return Ok(());
        }
        write!(f, " {}", Size(self.bytes))
    }
}

/// Shows bytes in the unit in which they are a short number.
pub(super) struct Size(pub(super) u64);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let is = |unit: u64| bytes >= unit && bytes.is_multiple_of(unit);
        match bytes {
            _ if is(1 << 20) => write!(f, "{} MiB", bytes >> 20),
            _ if is(1 << 10) && bytes < 1 << 20 => write!(f, "{} KiB", bytes >> 10),
            _ if is(1_000_000) => write!(f, "{} MB", bytes / 1_000_000),
            _ if is(100_000) => write!(f, "{}.{} MB", bytes / 1_000_000, bytes / 100_000 % 10),
            _ => write!(f, "{bytes} B"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown = |bytes| Size(bytes).to_string();
        let sizes = [0, 8, 8 << 10, 1 << 20, 16 << 20, 3_200_000, 206_000_000];
        let expected = ["0 B", "8 B", "8 KiB", "1 MiB", "16 MiB", "3.2 MB", "206 MB"];
        assert_eq!(sizes.map(shown), expected);
        assert_eq!(Row::new(Op::Barrier, 0).to_string(), "barrier");
    }

    #[test]
    fn small_and_large_are_all_and_share_nothing() {
        for row in Row::compared() {
            assert!(Sizes::Small.has(row) != Sizes::Large.has(row), "{row}");
            assert!(Sizes::All.has(row), "{row}");
        }
        assert!(Sizes::Small.has(Row::new(Op::Allgatherv, 65_536)));
        assert!(Sizes::Large.has(Row::new(Op::Allreduce, 1 << 20)));
    }

    #[test]
    fn names_lead_back_to_their_calls() {
        for op in Op::ALL {
            assert_eq!(Op::from_name(op.name()), Some(op));
        }
        assert_eq!(Op::from_name("gather"), None);
    }

    #[test]
    fn every_rank_holds_what_is_gathered() {
        assert_eq!(Row::new(Op::Allgatherv, 100).memory(4), 500);
        assert_eq!(Row::new(Op::Allreduce, 100).memory(4), 800);
    }
}
