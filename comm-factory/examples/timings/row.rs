//! What is timed: a call and its bytes.

use std::str::FromStr;

/// Names a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Barrier,
    Allreduce,
    /// After an untimed barrier.
    Broadcast,
    /// Back to back.
    Broadcasts,
    Allgatherv,
    /// No collective: in each rank's own memory.
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

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Barrier => "barrier",
            Self::Allreduce => "allreduce",
            Self::Broadcast => "broadcast",
            Self::Broadcasts => "broadcasts",
            Self::Allgatherv => "allgatherv",
            Self::Copy => "copy",
        }
    }

    /// Says whether an untimed barrier goes before each call, because the call itself does not synchronise everywhere.
    pub(crate) const fn apart(self) -> bool {
        matches!(self, Self::Broadcast | Self::Copy)
    }
}

/// One line of the output.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) op: Op,
    pub(crate) bytes: usize,
}

impl Row {
    pub(crate) const fn barrier() -> Self {
        Self {
            op: Op::Barrier,
            bytes: 0,
        }
    }

    /// Lists what is timed when nothing else is asked for.
    pub(crate) fn usual() -> Vec<Self> {
        let rows = [
            (Op::Barrier, &[0][..]),
            (Op::Allreduce, &[32, 8 << 10, 1 << 20, 16 << 20]),
            (Op::Broadcast, &[8, 20_000_000]),
            (
                Op::Allgatherv,
                &[1 << 10, 64 << 10, 3_200_000, 64_000_000, 206_000_000],
            ),
        ];
        let each = |(op, sizes): (Op, &'static [usize])| {
            sizes.iter().map(move |&bytes| Self { op, bytes })
        };
        rows.into_iter().flat_map(each).collect()
    }
}

impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, bytes) = text.split_once(':').unwrap_or((text, "0"));
        let op = Op::ALL.into_iter().find(|op| op.name() == name);
        let op = op.ok_or_else(|| format!("there is no call {name}"))?;
        let bytes = bytes.parse().map_err(|_| "expected CALL:BYTES")?;
        if op == Op::Allreduce && (bytes == 0 || bytes % size_of::<f64>() != 0) {
            return Err("allreduce takes a multiple of 8 bytes, and some".to_owned());
        }
        Ok(Self { op, bytes })
    }
}
