//! Compares our backends with other libraries, or with another build of ours: in one run, in turns, on the same rows.
//!
//! Pure: `row`, `figure`, `book`, `target`, `compare`, `table`, `plot`. With processes: `build`, `fetch`, `contender`, `watch`, `contest`,
//! `start_up`, `solver`, `campaign`. `results` publishes the figures.

use std::fs::File;
use std::path::PathBuf;

use clap::ValueEnum;

use crate::mpi::Mpi;

mod book;
mod build;
mod campaign;
mod compare;
mod contender;
mod contest;
mod fetch;
mod plan;
mod plot;
mod progress;
mod record;
mod results;
mod solver;
mod start_up;
mod table;
mod target;
mod watch;

// The measuring program defines its rows and its output; this command compiles the same files.
#[path = "../../comm-factory/examples/timings/figure.rs"]
mod figure;
#[path = "../../comm-factory/examples/timings/row.rs"]
mod row;

use book::Comparison;
use campaign::Campaign;
use contender::Peer;
use contest::Results;
use record::Record;
use row::Row;
use table::Table;
use target::{NOISE, ROUNDS, SMALL, Target, Verdict};

const NOTES: &str = "\
Every rank times every call, a call takes as long as on its slowest rank, and a figure is the median over the calls. In
each round every contender runs once, and the rounds start with different ones. A ratio is our time over that of the best
peer in the same round. A row holds if the median of at least 9 ratios is at most its target, with 5 % for noise.

Examples:
  cargo xtask bench                                         everything, which takes a long time
  cargo xtask bench --backend tcp --ranks 2 --rows small    a few minutes
  cargo xtask bench --row allreduce:32,barrier              these rows only
  cargo xtask bench --rounds 1 --no-peers                   only ours, for a first impression
  cargo xtask bench --ranks 2 --fetch-peers --plot b.svg    with the newest MPICH and Open MPI, and a picture
  cargo xtask bench --backend mpi-mpich                     the overhead of ours on top of MPICH
  cargo xtask bench --against ../main --ranks 2,4           this build and that of another checkout
  cargo xtask bench --sweep --backend tcp                   ours around the sizes where tcp switches algorithms
  cargo xtask bench --solver                                the speedup of the example solver with a second rank
  cargo xtask bench --results                               everything, written to docs/results.md and the README
  cargo xtask bench --results --row barrier,allreduce:8     the same with these rows only
  cargo xtask bench --results --from-csv                    only write the page and the pictures again

Exit code: 0 if everything ran; 1 if one of ours failed, or a peer that was asked for by name is missing or measured
nothing; with --strict also if a target was missed.";

/// What to measure, and the libraries to compare with.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = NOTES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct Bench {
    /// Measure these backends instead of shm and tcp
    #[arg(long, value_enum, value_delimiter = ',')]
    backend: Vec<Backend>,
    /// Measure with N ranks instead of 2, 4, 8, 16, 32 and 64
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=256))]
    ranks: Vec<u16>,
    /// Run every contender this often, in turns; fewer than 9 rounds give no verdicts
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Run each row for about this long per contender and round
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = seconds)]
    seconds: f64,
    /// Give up a row if a contender takes longer than this for it
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: u32,
    /// Measure small rows, large ones or all
    #[arg(long, value_enum, default_value_t = Sizes::All)]
    rows: Sizes,
    /// Measure these rows instead of the usual ones
    #[arg(long, value_name = "CALL:BYTES", value_delimiter = ',')]
    row: Vec<Row>,
    /// Leave out rows with more bytes
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<usize>,
    /// Compare with these libraries instead of all installed ones
    #[arg(long, value_enum, value_delimiter = ',')]
    peer: Vec<Peer>,
    /// Measure only ours, without a comparison
    #[arg(long, conflicts_with = "peer")]
    no_peers: bool,
    /// First fetch the newest MPICH and Open MPI of the Python package index, into environments below target
    #[arg(long, conflicts_with = "no_peers")]
    fetch_peers: bool,
    /// Compare with the build of another checkout of this workspace instead
    #[arg(long, value_name = "DIR", value_parser = checkout, conflicts_with_all = ["peer", "no_peers", "fetch_peers"])]
    against: Option<PathBuf>,
    /// Also write every figure to FILE
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the ratios of all rows to FILE.svg
    #[arg(long, value_name = "FILE.svg")]
    plot: Option<PathBuf>,
    /// Measure only ours, from 32 KiB to 4 MiB, to show steps where it switches algorithms
    #[arg(long, conflicts_with_all = ["peer", "fetch_peers", "plot", "against", "rows", "row", "max_bytes"])]
    sweep: bool,
    /// Measure the example solver instead: its speedup with more ranks, and the memory of a shared case
    #[arg(long, conflicts_with_all = ["backend", "peer", "fetch_peers", "plot", "against", "rows", "row", "max_bytes", "sweep"])]
    solver: bool,
    /// Measure everything and write docs/results.md, its figures and pictures, and the table of the README; with --row, --rows small,
    /// --rows large or --solver, measure only that part
    #[arg(long, conflicts_with_all = ["backend", "no_peers", "against", "plot", "sweep", "strict"])]
    results: bool,
    /// Measure nothing: write the page and the pictures from the figures in docs/results
    #[arg(long, requires = "results", conflicts_with_all = ["solver", "row", "rows", "ranks", "csv", "fetch_peers"])]
    from_csv: bool,
    /// Exit with 1 if a target was missed
    #[arg(long)]
    strict: bool,
    /// Measure unoptimised programs, to test this command and not the library
    #[arg(long, hide_short_help = true)]
    unoptimised: bool,
}

impl Bench {
    fn backends(&self) -> Vec<Backend> {
        let usual = [Backend::Shm, Backend::Tcp];
        let asked = |one: &Backend| match &self.backend[..] {
            [] => usual.contains(one),
            named => named.contains(one),
        };
        Backend::ALL.into_iter().filter(asked).collect()
    }

    fn ranks_or(&self, usual: &[usize]) -> Vec<usize> {
        let mut ranks: Vec<usize> = self.ranks.iter().map(|&ranks| ranks.into()).collect();
        if ranks.is_empty() {
            return usual.to_vec();
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }
}

/// Names a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Backend {
    /// Shared memory
    Shm,
    /// Sockets on the loopback interface
    Tcp,
    /// MPI, with MPICH below
    #[value(name = "mpi-mpich")]
    MpiMpich,
    /// MPI, with Open MPI below
    #[value(name = "mpi-openmpi")]
    MpiOpenMpi,
}

impl Backend {
    const ALL: [Self; 4] = [Self::Shm, Self::Tcp, Self::MpiMpich, Self::MpiOpenMpi];

    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            Self::MpiMpich => "mpi-mpich",
            Self::MpiOpenMpi => "mpi-openmpi",
        }
    }

    /// Returns the MPI library that the backend uses.
    const fn mpi(self) -> Option<Mpi> {
        match self {
            Self::Shm | Self::Tcp => None,
            Self::MpiMpich => Some(Mpi::Mpich),
            Self::MpiOpenMpi => Some(Mpi::OpenMpi),
        }
    }
}

/// Picks rows by their size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sizes {
    /// Up to 64 KiB
    Small,
    /// Beyond 64 KiB
    Large,
    /// All sizes
    All,
}

impl Sizes {
    fn has(self, row: Row) -> bool {
        match self {
            Self::Small => row.bytes <= SMALL,
            Self::Large => row.bytes > SMALL,
            Self::All => true,
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.001 to 60".to_owned()),
    }
}

fn checkout(text: &str) -> Result<PathBuf, String> {
    let root = PathBuf::from(text).canonicalize();
    let root = root.map_err(|why| why.to_string())?;
    if root.join("comm-factory/examples/timings").is_dir() {
        Ok(root)
    } else {
        Err("it has no comm-factory/examples/timings".to_owned())
    }
}

/// Measures and prints; returns whether everything ran.
pub(crate) fn run(bench: &Bench) -> bool {
    if bench.results {
        return results::run(bench);
    }
    let measured = Record::create(bench.csv.as_deref()).and_then(|mut record| {
        if bench.solver {
            let books = solver::measure(bench, &mut record)?;
            Ok((true, print(&solver::tables(&books))))
        } else {
            let plot = bench.plot.as_deref().map(plot::create).transpose()?;
            measure(bench, &mut record, plot)
        }
    });
    match measured {
        Ok((good, missed)) => good && !(bench.strict && missed > 0),
        Err(reason) => {
            eprintln!("bench: {reason}");
            false
        }
    }
}

/// Measures; returns whether everything ran, and how many targets were missed.
fn measure(
    bench: &Bench,
    record: &mut Record,
    plot: Option<File>,
) -> Result<(bool, usize), String> {
    let campaign = Campaign::prepare(bench)?;
    let (cores, heading) = (campaign.cores, campaign.heading.clone());
    let results = campaign.play(bench, record, |_| Ok(()))?;
    let tables = tables(bench, cores, &results);
    let missed = print(&tables);
    if let Some(file) = plot {
        plot::write(file, &heading, &tables)?;
    }
    let silent = plan::silent(bench, &results);
    for peer in &silent {
        eprintln!("bench: {} was asked for and measured nothing", peer.name());
    }
    let good = silent.is_empty() && results.iter().all(|results| results.good);
    Ok((good, missed))
}

/// Returns the tables of each backend.
fn tables(bench: &Bench, cores: usize, results: &[Results]) -> Vec<Table> {
    let of = |backend: Backend| {
        let lines = |lines: &dyn Fn(&Results) -> Vec<Comparison>| -> Vec<Comparison> {
            let results = results.iter();
            let results = results.filter(|one| one.contest.setting.backend == backend);
            results.flat_map(lines).collect()
        };
        let table = |what, other, lines| Table {
            title: format!("{}: {what}", backend.name()),
            other,
            unit: "us",
            lines,
        };
        let with_peers = || lines(&|one| one.with_peers(cores));
        match bench {
            Bench { sweep: true, .. } => {
                let steps = lines(&Results::steps);
                vec![table("twice the bytes", "half of it", steps)]
            }
            Bench {
                against: Some(_), ..
            } => vec![table("ours and the other build", "other", with_peers())],
            // The ratios among its calls depend on the library, not on ours.
            _ if backend.mpi().is_some() => {
                vec![table("ours and the library below", "library", with_peers())]
            }
            _ => vec![
                table("ours and the peers", table::PEERS, with_peers()),
                table("ours alone", "to", lines(&|one| one.with_itself(cores))),
            ],
        }
    };
    Backend::ALL.into_iter().flat_map(of).collect()
}

/// Prints the tables that have lines, and which of them miss their targets; returns how many do.
fn print(tables: &[Table]) -> usize {
    for table in tables.iter().filter(|table| !table.lines.is_empty()) {
        println!("\n{table}");
    }
    let with = |verdict: Verdict| {
        let lines = tables
            .iter()
            .flat_map(|table| table.lines.iter().map(move |line| (table, line)));
        let lines = lines.filter(move |(_, line)| line.verdict() == Some(verdict));
        let name = |(table, line): (&Table, &Comparison)| {
            format!("  {}, {} ranks, {}", table.title, line.ranks, line.call)
        };
        lines.map(name).collect::<Vec<_>>()
    };
    let (missed, unclear) = (with(Verdict::Misses), with(Verdict::Unclear));
    for (what, names) in [("missed", &missed), ("above, within noise", &unclear)] {
        if !names.is_empty() {
            println!("\n{what}:\n{}", names.join("\n"));
        }
    }
    if let Some(line) = above_all(tables) {
        println!("\n{line}");
    }
    missed.len()
}

/// Returns a line that counts the rows in which a peer is faster than noise explains; `None` if no row has enough rounds.
fn above_all(tables: &[Table]) -> Option<String> {
    let (above, all) = above(tables);
    (all > 0).then(|| format!("above {NOISE} of the best peer: {above} of {all} rows that count"))
}

/// Counts the rows in which a peer is faster than noise explains, and all rows that count.
fn above(tables: &[Table]) -> (usize, usize) {
    let lines = tables.iter().filter(|table| table.other == table::PEERS);
    let lines = lines.flat_map(|table| &table.lines);
    let judge = |line: &Comparison| match line.verdict()? {
        Verdict::Holds | Verdict::Misses => Some(Target::AtMost(1.0).judge(&line.ratios)),
        _ => None,
    };
    let verdicts: Vec<Verdict> = lines.filter_map(judge).collect();
    let above = verdicts
        .iter()
        .filter(|&&verdict| verdict == Verdict::Misses);
    (above.count(), verdicts.len())
}

#[cfg(test)]
mod tests;
