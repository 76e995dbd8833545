//! A row of the benchmark: a call and its bytes. The harness, `cargo xtask bench`, compiles this file as well.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use clap::ValueEnum;

/// A call to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Op {
    Barrier,
    Allreduce,
    /// After an untimed barrier.
    Broadcast,
    /// Back to back.
    Broadcasts,
    Allgatherv,
    /// The same, and then every rank reads all.
    AllgathervRead,
    /// Of a gathered region, after an untimed fence.
    Exchange,
    /// The same, and then every rank reads all.
    ExchangeRead,
    /// The reduction of one exact sum.
    ExactSum,
    /// No collective: all ranks at once copy in their own memory.
    Copy,
    /// No call: the time from the start of the launcher to the end of all ranks after one barrier, by the clock of the program that
    /// started it.
    StartUp,
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let value = self.to_possible_value();
        f.write_str(value.as_ref().map_or("", |value| value.get_name()))
    }
}

impl FromStr for Op {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        <Self as ValueEnum>::from_str(name, false).map_err(|_| format!("there is no call {name}"))
    }
}

/// A row. The bytes are those of the vector for `allreduce` and `broadcast`, and of the gathered result for `allgatherv` and
/// `exchange`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Row {
    pub(crate) op: Op,
    pub(crate) bytes: usize,
}

impl Row {
    pub(crate) const fn new(op: Op, bytes: usize) -> Self {
        Self { op, bytes }
    }

    /// Lists the default rows, which are compared with other libraries.
    pub(crate) fn usual() -> Vec<Self> {
        let rows = [
            (Op::Barrier, &[0][..]),
            (Op::Allreduce, &[32, 8 << 10, 1 << 20, 16 << 20]),
            (Op::Broadcast, &[8, 20_000_000]),
            (
                Op::Allgatherv,
                &[1 << 10, 64 << 10, 3_200_000, 64_000_000, 206_000_000],
            ),
            (Op::AllgathervRead, &[206_000_000]),
        ];
        let each = |(op, sizes): (Op, &'static [usize])| {
            sizes.iter().map(move |&bytes| Self::new(op, bytes))
        };
        rows.into_iter().flat_map(each).collect()
    }
}

/// Reads `CALL` or `CALL:BYTES`.
impl FromStr for Row {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, bytes) = text.split_once(':').unwrap_or((text, "0"));
        let op = name.parse()?;
        let bytes = bytes.parse().map_err(|_| "expected CALL:BYTES")?;
        if op == Op::Allreduce && (bytes == 0 || bytes % size_of::<f64>() != 0) {
            return Err("allreduce takes a positive multiple of 8 bytes".to_owned());
        }
        Ok(Self { op, bytes })
    }
}

/// Formats the row for people.
impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.op {
            Op::Barrier | Op::ExactSum | Op::StartUp => write!(f, "{}", self.op),
            op => write!(f, "{op} {}", Size(self.bytes)),
        }
    }
}

/// Formats bytes in the unit that gives a short number.
pub(crate) struct Size(pub(crate) usize);

impl Display for Size {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let bytes = self.0;
        let is = |unit: usize| bytes >= unit && bytes.is_multiple_of(unit);
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
    fn names_lead_back_to_their_calls() {
        for &op in Op::value_variants() {
            let row = Row::new(op, 16);
            assert_eq!(format!("{op}:16").parse(), Ok(row));
        }
        for text in ["gather:8", "allreduce", "allreduce:12", "barrier:x"] {
            assert!(text.parse::<Row>().is_err(), "{text}");
        }
        assert_eq!("barrier".parse(), Ok(Row::new(Op::Barrier, 0)));
    }
}
