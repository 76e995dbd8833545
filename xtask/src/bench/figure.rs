//! What a measuring program says about one row.

use super::row::{Op, Row};

/// Holds one line: microseconds of the slowest rank over some calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Figure {
    pub(super) row: Row,
    pub(super) calls: u64,
    pub(super) median: f64,
    pub(super) p99: f64,
    /// From the root's entry to the last return; of broadcasts only.
    pub(super) span: Option<f64>,
}

impl Figure {
    /// Reads a line, with or without the rank that comm-run puts in front; none if it is something else.
    pub(super) fn read(line: &str) -> Option<Self> {
        let line = line.strip_prefix("[0] ").unwrap_or(line);
        let words: Vec<&str> = line.trim_end().split(',').collect();
        let ["timing", op, bytes, calls, median, p99, span] = words[..] else {
            return None;
        };
        let time = |text: &str| {
            let time: f64 = text.parse().ok()?;
            (time.is_finite() && time >= 0.0).then_some(time)
        };
        Some(Self {
            row: Row::new(Op::from_name(op)?, bytes.parse().ok()?),
            calls: calls.parse().ok().filter(|&calls| calls > 0)?,
            median: time(median)?,
            p99: time(p99)?,
            span: match span {
                "" => None,
                span => Some(time(span)?),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_with_and_without_a_rank() {
        let line = "timing,broadcast,8,20000,0.311,0.902,0.402";
        let figure = Figure {
            row: Row::new(Op::Broadcast, 8),
            calls: 20_000,
            median: 0.311,
            p99: 0.902,
            span: Some(0.402),
        };
        assert_eq!(Figure::read(line), Some(figure));
        assert_eq!(Figure::read(&format!("[0] {line}")), Some(figure));
        let barrier = Figure::read("timing,barrier,0,7,1.0,2.0,").unwrap();
        assert_eq!((barrier.row.op, barrier.span), (Op::Barrier, None));
    }

    #[test]
    fn other_lines_are_no_figures() {
        for line in [
            "",
            "timing,barrier,0,7,1.0,2.0",
            "timing,gather,0,7,1.0,2.0,",
            "timing,barrier,0,0,1.0,2.0,",
            "timing,barrier,0,7,NaN,2.0,",
            "timing,barrier,0,7,-1.0,2.0,",
            "timing,broadcast,8,7,1.0,2.0,x",
            "[1] timing,barrier,0,7,1.0,2.0,",
        ] {
            assert_eq!(Figure::read(line), None, "{line}");
        }
    }
}
