//! Comparisons as a Markdown table that is also readable on a terminal.

use std::fmt::{self, Display, Formatter};

use comfy_table::CellAlignment;
use comfy_table::presets::ASCII_MARKDOWN;

use super::book::{Comparison, median};
use super::target::Target;
use crate::report::bold;

/// The heading above the peers.
pub(super) const PEERS: &str = "best peer";

/// Comparisons under a title; `other` is the heading of the column that ours is compared with.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: String,
    pub(super) other: &'static str,
    pub(super) unit: &'static str,
    pub(super) lines: Vec<Comparison>,
}

impl Display for Table {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (other, unit) = (self.other, self.unit);
        let spread = "lowest-highest";
        let mut table = comfy_table::Table::new();
        table.load_style(ASCII_MARKDOWN).set_header([
            "ranks", "call", unit, other, unit, "ratio", spread, "at most", "",
        ]);
        table.add_rows(self.lines.iter().map(cells));
        for (at, column) in table.column_iter_mut().enumerate() {
            if !matches!(at, 1 | 3 | 8) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        let title = bold(&format!("## {}", self.title));
        write!(f, "{title}\n\n{table}")
    }
}

pub(super) fn cells(line: &Comparison) -> [String; 9] {
    let missing = || "-".to_owned();
    let ratios = || line.ratios.iter().copied();
    let spread = ratios().reduce(f64::min).zip(ratios().reduce(f64::max));
    // Two digits after the point could hide a difference such as that between 1.03 and 1.034.
    let digits = if matches!(line.target, Target::Chance(_)) {
        3
    } else {
        2
    };
    let (other, time) = match &line.other {
        Some((other, time)) => (other.clone(), short(*time)),
        None => (missing(), missing()),
    };
    [
        line.ranks.to_string(),
        line.call.clone(),
        line.ours.map_or_else(missing, short),
        other,
        time,
        median(line.ratios.clone()).map_or_else(missing, |ratio| format!("{ratio:.digits$}")),
        spread.map_or_else(missing, |(least, most)| format!("{least:.2}-{most:.2}")),
        line.target.to_string(),
        match line.verdict() {
            Some(verdict) => verdict.to_string(),
            None => "**failed**".to_owned(),
        },
    ]
}

/// Formats a number with three significant digits.
fn short(value: f64) -> String {
    match value {
        _ if value < 10.0 => format!("{value:.2}"),
        _ if value < 100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ours: Option<f64>, other: Option<(&str, f64)>, ratios: Vec<f64>) -> Comparison {
        Comparison {
            ranks: 2,
            call: "allreduce 32 B".to_owned(),
            ours,
            other: other.map(|(name, time)| (name.to_owned(), time)),
            ratios,
            target: Target::AtMost(0.8),
        }
    }

    #[test]
    fn a_table_is_markdown_with_columns_that_stand_below_each_other() {
        let lines = vec![
            line(Some(0.25), Some(("openmpi", 0.5)), vec![0.5; 9]),
            line(Some(12_345.6), None, Vec::new()),
            line(None, Some(("gloo", 12.34)), Vec::new()),
        ];
        let table = Table {
            title: "shm".to_owned(),
            other: "best peer",
            unit: "us",
            lines,
        };
        let text = table.to_string();
        let rows: Vec<&str> = text.lines().skip(2).collect();
        let expected = [
            "| ranks | call           |    us | best peer |   us | ratio | lowest-highest | at most |            |",
            "|-------|----------------|-------|-----------|------|-------|----------------|---------|------------|",
            "|     2 | allreduce 32 B |  0.25 | openmpi   | 0.50 |  0.50 |      0.50-0.50 |     0.8 | holds      |",
            "|     2 | allreduce 32 B | 12346 | -         |    - |     - |              - |     0.8 | no peer    |",
            "|     2 | allreduce 32 B |     - | gloo      | 12.3 |     - |              - |     0.8 | **failed** |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn few_rounds_show_the_ratio_and_no_verdict() {
        let mut few = line(Some(1.0), Some(("mpich", 2.0)), vec![0.25, 0.75]);
        let shown = cells(&few);
        assert_eq!(shown[5..7], ["0.50", "0.25-0.75"]);
        assert_eq!(shown[8], "2 rounds: no verdict");
        few.target = Target::Chance(1.03);
        assert_eq!(cells(&few)[5], "0.500");
    }
}
