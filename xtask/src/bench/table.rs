//! Comparisons as a table in Markdown that reads well on a terminal, too.

use std::fmt::Write;

use super::book::median;
use super::compare::Line;

const COLUMNS: usize = 9;

/// Writes the lines as a table; `other` is the heading above what ours is compared with.
pub(super) fn markdown(lines: &[Line], other: &str) -> String {
    let head = [
        "ranks",
        "call",
        "us",
        other,
        "us",
        "ratio",
        "lowest-highest",
        "at most",
        "",
    ];
    let mut rows = vec![head.map(str::to_owned)];
    rows.extend(lines.iter().map(cells));
    let mut widths = [3; COLUMNS];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.len().max(*width);
        }
    }
    let line = |row: &[String; COLUMNS]| {
        let cells = row.iter().zip(widths).enumerate();
        let cells = cells.map(|(column, (cell, width))| {
            if is_number(column) {
                format!("{cell:>width$}")
            } else {
                format!("{cell:<width$}")
            }
        });
        format!("| {} |\n", cells.collect::<Vec<_>>().join(" | "))
    };
    let rule: Vec<String> = (0..COLUMNS)
        .map(|column| {
            let dashes = "-".repeat(widths[column] - 1);
            let end = if is_number(column) { ':' } else { '-' };
            format!("{dashes}{end}")
        })
        .collect();
    let mut text = line(&rows[0]);
    // Writing to a string does not fail.
    let _ = writeln!(text, "| {} |", rule.join(" | "));
    text.extend(rows[1..].iter().map(line));
    text
}

/// Says whether a column holds numbers, which stand to the right.
const fn is_number(column: usize) -> bool {
    !matches!(column, 1 | 3 | 8)
}

fn cells(line: &Line) -> [String; COLUMNS] {
    let missing = || "-".to_owned();
    let ratios = || line.ratios.iter().copied();
    let spread = ratios().reduce(f64::min).zip(ratios().reduce(f64::max));
    let (other, time) = match &line.other {
        Some((other, time)) => (other.clone(), micros(*time)),
        None => (missing(), missing()),
    };
    [
        line.ranks.to_string(),
        line.call.clone(),
        line.ours.map_or_else(missing, micros),
        other,
        time,
        median(line.ratios.clone()).map_or_else(missing, |ratio| format!("{ratio:.2}")),
        spread.map_or_else(missing, |(least, most)| format!("{least:.2}-{most:.2}")),
        line.target.to_string(),
        match line.verdict() {
            Some(verdict) => verdict.to_string(),
            None => "**failed**".to_owned(),
        },
    ]
}

/// Shows microseconds with three digits that mean something.
fn micros(time: f64) -> String {
    match time {
        _ if time < 10.0 => format!("{time:.2}"),
        _ if time < 100.0 => format!("{time:.1}"),
        _ => format!("{time:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(ours: Option<f64>, other: Option<(String, f64)>, ratios: Vec<f64>) -> Line {
        Line {
            ranks: 2,
            call: "allreduce 32 B".to_owned(),
            ours,
            other,
            ratios,
            target: 0.8,
        }
    }

    #[test]
    fn a_table_is_markdown_with_columns_that_stand_below_each_other() {
        let lines = [
            line(Some(0.25), Some(("openmpi".to_owned(), 0.5)), vec![0.5; 9]),
            line(Some(12_345.6), None, Vec::new()),
            line(None, Some(("gloo".to_owned(), 12.34)), Vec::new()),
        ];
        let text = markdown(&lines, "best peer");
        let rows: Vec<&str> = text.lines().collect();
        let expected = [
            "| ranks | call           |    us | best peer |   us | ratio | lowest-highest | at most |            |",
            "| ----: | -------------- | ----: | --------- | ---: | ----: | -------------: | ------: | ---------- |",
            "|     2 | allreduce 32 B |  0.25 | openmpi   | 0.50 |  0.50 |      0.50-0.50 |     0.8 | holds      |",
            "|     2 | allreduce 32 B | 12346 | -         |    - |     - |              - |     0.8 | no peer    |",
            "|     2 | allreduce 32 B |     - | gloo      | 12.3 |     - |              - |     0.8 | **failed** |",
        ];
        assert_eq!(rows, expected);
    }

    #[test]
    fn few_rounds_show_the_ratio_and_no_verdict() {
        let few = line(Some(1.0), Some(("mpich".to_owned(), 2.0)), vec![0.25, 0.75]);
        let cells = cells(&few);
        assert_eq!(cells[5..7], ["0.50", "0.25-0.75"]);
        assert_eq!(cells[8], "2 rounds: no verdict");
    }
}
