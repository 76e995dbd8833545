//! The page of the results, line by line.

use super::super::Backend;
use super::super::book::Comparison;
use super::super::compare::EXCHANGE_READ;
use super::super::contest::Results;
use super::super::row::{Op, Row};
use super::super::table::{PEERS, Table, cells};
use super::super::target::NOISE;
use super::super::{above, solver, start_up};
use super::figures::{Figures, LIBRARIES, time};
use super::glance;

const BACKENDS: [Backend; 2] = [Backend::Shm, Backend::Tcp];

/// Returns the text of the page.
pub(super) fn text(figures: &Figures) -> String {
    let mut lines = head(figures);
    lines.push("## At a glance\n".to_owned());
    lines.push(glance::table(figures));
    lines.push(
        "![How many times as long as cobre-comm the others take](results/overview.svg)".to_owned(),
    );
    for backend in BACKENDS {
        lines.extend(compared(figures, backend));
    }
    lines.extend(alone(figures));
    lines.extend(starts(figures));
    lines.extend(solved(figures));
    lines.join("\n") + "\n"
}

fn head(figures: &Figures) -> Vec<String> {
    let (above, all) = above(&BACKENDS.map(|backend| table(figures, backend)));
    let summary = if all == 0 {
        "There are too few rounds for a verdict on any row.".to_owned()
    } else {
        let most = all - above;
        format!(
            "In {most} of {all} rows with a target it takes at most {NOISE} of the time of the fastest peer."
        )
    };
    let solver = if figures.books.is_empty() {
        ""
    } else {
        ", [solver.csv](results/solver.csv)"
    };
    let about = |name| format!("| {name} | {} |", figures.calls.about(name));
    let date = format!("| measured on | {} |", figures.calls.about("date"));
    let head = [
        "# Results\n",
        "<!-- Written by `cargo xtask bench --results` from the figures in docs/results; a test compares them. -->\n",
        "cobre-comm beside MPICH, Open MPI and Gloo, measured in turns on one machine.",
        &summary,
        "[Benchmarks](benchmarks.md) describes every row, how the peers are started, and how far to trust the figures.",
        "Run it yourself with `cargo xtask bench --results`; `--row barrier,allreduce:8 --ranks 2,8` makes a shorter run.\n",
    ];
    let mut lines = head.map(str::to_owned).to_vec();
    lines.extend([date, "|---|---|".to_owned()]);
    lines.extend(["machine", "system", "compiler", "load", "run"].map(about));
    lines.push(format!(
        "| figures | [calls.csv](results/calls.csv){solver} |\n"
    ));
    lines
}

/// Returns the comparisons of a backend with the peers, with all numbers of ranks.
pub(super) fn table(figures: &Figures, backend: Backend) -> Table {
    let results = figures.of(backend);
    Table {
        title: format!("{}: ours and the peers", backend.name()),
        other: PEERS,
        unit: "us",
        lines: results
            .flat_map(|results| results.with_peers(figures.cores))
            .collect(),
    }
}

/// Compares a backend with the peers: a picture, and a table for each number of ranks.
fn compared(figures: &Figures, backend: Backend) -> Vec<String> {
    let name = backend.name();
    let place = match backend {
        Backend::Tcp => "the loopback interface",
        _ => "shared memory",
    };
    let mut lines = vec![
        format!("\n## {name}: {place}\n"),
        "A ratio is the time of cobre-comm over that of the fastest peer in the same round; below 1 it is faster."
            .to_owned(),
        "The spread is that of the rounds.\n".to_owned(),
        format!("![The ratios of all rows of {name}](results/{name}.svg)"),
    ];
    for results in figures.of(backend) {
        let ranks = results.contest.setting.ranks;
        lines.push(format!("\n### {name}, {ranks} ranks\n"));
        lines.push(format!(
            "| call | {} | ratio | spread | target | |",
            LIBRARIES.join(" | ")
        ));
        lines.push("|---|--:|--:|--:|--:|--:|--:|--:|---|".to_owned());
        let comparisons = results.with_peers(figures.cores);
        lines.extend(comparisons.iter().map(|line| row(results, line)));
    }
    lines
}

/// Returns a line of a table: the times of all libraries, and the verdict.
fn row(results: &Results, line: &Comparison) -> String {
    let mut times = results.by_library(&line.call);
    if line.call == EXCHANGE_READ.to_string() {
        // The peers have no exchange; it replaces their allgatherv.
        let gathered = Row::new(Op::AllgathervRead, EXCHANGE_READ.bytes);
        times[1..].copy_from_slice(&results.by_library(&gathered.to_string())[1..]);
    }
    let [.., ratio, spread, target, verdict] = cells(line);
    format!(
        "| {} | {} | {ratio} | {spread} | {target} | {verdict} |",
        line.call,
        times.map(shown).join(" | ")
    )
}

fn shown(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), time)
}

/// Compares our calls with each other and with plain copies.
fn alone(figures: &Figures) -> Vec<String> {
    let sections = BACKENDS.map(|backend| {
        let results = figures.of(backend);
        let lines: Vec<Comparison> = results
            .flat_map(|results| results.with_itself(figures.cores))
            .collect();
        section(
            &format!("{}: ours alone", backend.name()),
            "to",
            "µs",
            &lines,
        )
    });
    sections.concat()
}

/// Returns a table of comparisons with a heading; `None` without lines.
fn section(title: &str, other: &str, unit: &str, comparisons: &[Comparison]) -> Vec<String> {
    if comparisons.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![
        format!("\n## {title}\n"),
        format!("| ranks | call | {unit} | {other} | {unit} | ratio | spread | at most | |"),
        "|--:|---|--:|---|--:|--:|--:|--:|---|".to_owned(),
    ];
    let rows = comparisons.iter().map(cells);
    lines.extend(rows.map(|cells| format!("| {} |", cells.join(" | "))));
    lines
}

/// Shows the time in which all ranks start, call one barrier and end.
fn starts(figures: &Figures) -> Vec<String> {
    if !figures.has_starts() {
        return Vec::new();
    }
    let call = start_up::ROW.to_string();
    let results = BACKENDS.into_iter().flat_map(|backend| figures.of(backend));
    let row = |results: &Results| {
        let times = results.by_library(&call);
        times[0]?;
        let setting = results.contest.setting;
        let place = format!("{}, {} ranks", setting.backend.name(), setting.ranks);
        let times = times.map(shown);
        Some(format!("| {place} | {} |", times[..3].join(" | ")))
    };
    let mut lines = vec![
        "\n## Start-up\n".to_owned(),
        "From the start of the launcher to its end, with one barrier of all ranks in between. Gloo has no launcher.\n"
            .to_owned(),
        format!("| | {} |", LIBRARIES[..3].join(" | ")),
        "|---|--:|--:|--:|".to_owned(),
    ];
    lines.extend(results.filter_map(row));
    lines.push("\n![Start-up of all ranks](results/start-up.svg)".to_owned());
    lines
}

/// Shows the speedup of the solver with more ranks, and the memory of its shared regions.
fn solved(figures: &Figures) -> Vec<String> {
    let tables = solver::tables(&figures.books);
    let [time, memory] = &tables[..] else {
        return Vec::new();
    };
    if figures.books.is_empty() {
        return Vec::new();
    }
    let about = |name| figures.solved.about(name);
    let title = "The solver: the time of one rank and of more";
    let mut lines = section(title, time.other, "s", &time.lines);
    let title =
        "Memory of shared regions: a case of 160 MB, all ranks together, shared pages divided";
    lines.extend(section(title, memory.other, "MB", &memory.lines));
    let (date, load) = (about("date"), about("load"));
    lines.push(format!("\nBoth were measured on {date}; {load}.\n"));
    lines.push("![The time and the memory of the solver](results/solver.svg)".to_owned());
    lines
}

#[cfg(test)]
mod tests {
    use super::super::sheet::Sheet;
    use super::*;

    fn page(calls: &str, solved: &str) -> String {
        let sheet = |lines: &str| {
            let head = "# processors: 2\nbackend,ranks,contender,call,figure,1\n";
            Sheet::parse(&format!("{head}{lines}")).unwrap()
        };
        let figures = Figures::new(sheet(calls), sheet(solved)).unwrap();
        text(&figures).replace('\u{a0}', " ")
    }

    #[test]
    fn the_fastest_version_of_a_library_counts_and_spans_have_a_row() {
        let page = page(
            "shm,8,ours,broadcast:8,median_us,9\nshm,8,ours,broadcast:8,span_us,2\n\
             shm,8,mpich,broadcast:8,span_us,8\nshm,8,mpich-mpir,broadcast:8,span_us,4\n",
            "",
        );
        let row = "| broadcast 8 B, span | 2.00 µs | 4.00 µs | - | - | 0.50 | 0.50-0.50 |";
        assert!(page.contains(row), "{page}");
        assert!(page.contains("## shm, 8 ranks") && !page.contains("Start-up"));
    }

    #[test]
    fn an_exchange_stands_beside_the_allgatherv_that_it_replaces() {
        let page = page(
            "tcp,2,ours,exchange-read:206000000,median_us,50000\n\
             tcp,2,gloo,allgatherv-read:206000000,median_us,100000\n",
            "",
        );
        let row = "| exchange-read 206 MB | 50.0 ms | - | - | 100 ms | 0.50 |";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn a_row_that_all_peers_gave_up_is_shown_without_one() {
        let page = page(
            "shm,2,ours,barrier:0,median_us,2\nshm,2,mpich,barrier:0,median_us,4\n\
             shm,8,ours,barrier:0,median_us,9\n",
            "",
        );
        let row = "| barrier | 9.00 µs | - | - | - | - | - | 0.5 | no peer |";
        assert!(page.contains(row), "{page}");
    }

    #[test]
    fn starts_and_the_solver_have_parts_of_their_own() {
        let page = page(
            "shm,2,ours,start-up:0,median_us,9000\nshm,2,openmpi,start-up:0,median_us,90000\n",
            "shm,2,ours,sddp,seconds,6\nshm,2,ours,1 rank,seconds,12\nshm,2,ours,shm,megabytes,163\n\
             tcp,2,ours,tcp,megabytes,326\n",
        );
        for part in [
            "| shm, 2 ranks | 9.00 ms | - | 90.0 ms |",
            "| 2 | sddp | 6.00 | 1 rank | 12.0 | 0.50 |",
            "| 2 | shm | 163 | tcp | 326 | 0.50 |",
            "(results/solver.svg)",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
