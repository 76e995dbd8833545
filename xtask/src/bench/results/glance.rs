//! The figures at a glance: the table and the picture of the README.

use super::super::Backend;
use super::super::row::{Op, Row};
use super::figures::{Figures, LIBRARIES, time};
use super::picture::{Panel, Picture, Scale};

/// The rows that represent all others.
const ROWS: [Row; 5] = [
    Row::new(Op::Barrier, 0),
    Row::new(Op::Allreduce, 8),
    Row::new(Op::Allgatherv, 3_200_000),
    Row::new(Op::Allgatherv, 206_000_000),
    Row::new(Op::Exchange, 206_000_000),
];
const BACKENDS: [Backend; 2] = [Backend::Shm, Backend::Tcp];
const RANKS: [usize; 2] = [2, 8];

/// Returns the table, with the fastest of each row in bold, and where it was measured.
pub(super) fn table(figures: &Figures) -> String {
    let libraries = RANKS.map(|ranks| {
        let [ours, others @ ..] = LIBRARIES;
        format!("{ranks} ranks: {ours} | {}", others.join(" | "))
    });
    let mut lines = vec![
        format!("| | {} |", libraries.join(" | ")),
        format!("|---{}|", "|--:".repeat(8)),
    ];
    for backend in BACKENDS {
        lines.extend(ROWS.map(|row| {
            let cells = RANKS.map(|ranks| cells(figures, backend, ranks, row));
            let name = format!("{}, {row}", backend.name()).replace(" MB", "\u{a0}MB");
            format!("| {name} | {} |", cells.join(" | "))
        }));
    }
    let about = |name| figures.calls.about(name);
    lines.extend([
        "\nMedian time of the slowest rank; the fastest library is bold.".to_owned(),
        "A `-` is a call that the library does not have, or that failed or took longer than the limit.".to_owned(),
        "An `exchange` makes a shared region of 206 MB readable on all ranks, in place of an `allgatherv`.".to_owned(),
        format!("Measured on {}: {}; {}; {}.", about("date"), about("machine"), about("system"), about("load")),
        format!("Run: {}.\n", about("run")),
    ]);
    lines.join("\n")
}

/// Returns the cells of all libraries with one number of ranks.
fn cells(figures: &Figures, backend: Backend, ranks: usize, row: Row) -> String {
    let results = figures.at(backend, ranks);
    let times = results.map_or([None; 4], |results| results.by_library(&row.to_string()));
    let best = times.into_iter().flatten().reduce(f64::min);
    let compared = times.into_iter().flatten().count() > 1;
    let cell = |value: Option<f64>| match value {
        Some(value) if compared && Some(value) == best => format!("**{}**", time(value)),
        Some(value) => time(value),
        None => "-".to_owned(),
    };
    times.map(cell).join(" | ")
}

/// Draws the times of the others as multiples of ours.
pub(super) fn picture(figures: &Figures) -> Result<String, String> {
    let places = BACKENDS
        .into_iter()
        .flat_map(|backend| RANKS.map(|ranks| (backend, ranks)));
    let panel = |(backend, ranks): (Backend, usize)| {
        let results = figures.at(backend, ranks)?;
        let rows = ROWS.into_iter().filter_map(|row| {
            let [ours, others @ ..] = results.by_library(&row.to_string());
            let ratio = |time: Option<f64>| Some((time? / ours?, String::new()));
            let ratios: Vec<_> = others.into_iter().map(ratio).collect();
            let any = ratios.iter().any(Option::is_some);
            any.then(|| (row.to_string(), ratios))
        });
        Some(Panel {
            title: format!("{}, {ranks} ranks", backend.name()),
            rows: rows.collect(),
        })
    };
    let picture = Picture {
        title: "How many times as long as cobre-comm the others take",
        axis: "1 is the time of cobre-comm; the further right, the slower is the other library",
        scale: Scale::Ratios,
        series: &[(1, LIBRARIES[1]), (2, LIBRARIES[2]), (3, LIBRARIES[3])],
        panels: places.filter_map(panel).collect(),
    };
    picture.draw()
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;
    use super::*;

    fn figures(lines: &str) -> Figures {
        let head = "# processors: 2\nbackend,ranks,contender,call,figure,1\n";
        let calls = Sheet::parse(&format!("{head}{lines}")).unwrap();
        Figures::new(calls, Sheet::default()).unwrap()
    }

    #[test]
    fn the_fastest_is_bold_and_nobody_beats_an_absent_library() {
        let figures = figures(
            "shm,2,ours,barrier:0,median_us,2\nshm,2,openmpi,barrier:0,median_us,1\n\
             shm,8,ours,barrier:0,median_us,3\n",
        );
        let table = table(&figures).replace('\u{a0}', " ");
        let row = "| shm, barrier | 2.00 µs | - | **1.00 µs** | - | 3.00 µs | - | - | - |\n";
        assert!(table.contains(row), "{table}");
    }

    #[test]
    fn the_picture_has_a_panel_for_each_setting_that_was_measured() {
        let figures = figures(
            "shm,2,ours,barrier:0,median_us,2\nshm,2,openmpi,barrier:0,median_us,1\n\
             tcp,8,ours,barrier:0,median_us,3\ntcp,8,gloo,barrier:0,median_us,9\n",
        );
        let svg = picture(&figures).unwrap();
        for (panel, there) in [
            ("shm, 2 ranks", true),
            ("tcp, 8 ranks", true),
            ("shm, 8 ranks", false),
        ] {
            assert_eq!(svg.contains(panel), there, "{panel}");
        }
        // The legend and one ratio each for two of the libraries.
        assert_eq!(svg.matches("<polygon").count(), 5);
    }
}
