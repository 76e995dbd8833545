//! The line that a measuring program prints for one row. The harness, `cargo xtask bench`, compiles this file as well.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use super::row::Row;

/// The microseconds of the slowest rank over some calls.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Figure {
    pub(crate) row: Row,
    pub(crate) calls: usize,
    pub(crate) median: f64,
    pub(crate) p99: f64,
    /// The time from the root's entry to the last return; only for broadcasts.
    pub(crate) span: Option<f64>,
}

impl Display for Figure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Row { op, bytes } = self.row;
        let (calls, median, p99) = (self.calls, self.median, self.p99);
        write!(f, "timing,{op},{bytes},{calls},{median:.3},{p99:.3},")?;
        self.span.map_or(Ok(()), |span| write!(f, "{span:.3}"))
    }
}

impl FromStr for Figure {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        read(line).ok_or_else(|| format!("no figure: {line}"))
    }
}

fn read(line: &str) -> Option<Figure> {
    let words: Vec<&str> = line.trim_end().split(',').collect();
    let ["timing", op, bytes, calls, median, p99, span] = words[..] else {
        return None;
    };
    let time = |text: &str| {
        let time: f64 = text.parse().ok()?;
        (time.is_finite() && time >= 0.0).then_some(time)
    };
    Some(Figure {
        row: Row::new(op.parse().ok()?, bytes.parse().ok()?),
        calls: calls.parse().ok().filter(|&calls| calls > 0)?,
        median: time(median)?,
        p99: time(p99)?,
        span: match span {
            "" => None,
            span => Some(time(span)?),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::super::row::Op;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut figure = Figure {
            row: Row::new(Op::Broadcast, 8),
            calls: 20_000,
            median: 0.311,
            p99: 0.902,
            span: Some(0.402),
        };
        let line = "timing,broadcast,8,20000,0.311,0.902,0.402";
        assert_eq!(figure.to_string(), line);
        assert_eq!(line.parse(), Ok(figure));
        figure.span = None;
        assert_eq!(figure.to_string().parse(), Ok(figure));
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
            assert!(line.parse::<Figure>().is_err(), "{line}");
        }
    }
}
