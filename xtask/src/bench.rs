//! Measures our backends beside other libraries: all in one run, in turns, on the same rows.
//!
//! Pure: `row`, `figure`, `book`, `target`, `compare`, `table`. With processes: `build`, `contender`, `watch`, `contest`.

use std::path::PathBuf;

use crate::report::bold;

mod book;
mod build;
mod compare;
mod contender;
mod contest;
mod figure;
mod plan;
mod progress;
mod record;
mod row;
mod table;
mod target;
mod watch;

use compare::{Line, Section};
use contender::{Contender, Peer, Programs, Setting};
use contest::{Entrant, Note};
use plan::{Contest, Field};
use progress::Progress;
use record::Record;
use row::Sizes;
use target::{ROUNDS, Verdict};

const NOTES: &str = "\
Every rank times every call; the slowest rank's time is the call's; a figure is the median over the calls. In each
round every contender runs once, another one first. A ratio is ours over the best peer of the same round. A row holds
when the median of at least 9 ratios is at most its target, with 5 % for noise.

Examples:
  cargo xtask bench                                         everything, which takes long
  cargo xtask bench --backend tcp --ranks 2 --rows small    a few minutes
  cargo xtask bench --rounds 1 --no-peers                   ours alone, for a first look
  cargo xtask bench --sweep --backend tcp                   ours around the sizes where tcp changes its ways

Exit code: 0 when everything ran, 1 when one of ours failed, or a peer asked for by name is not there or measured
nothing; with --strict also when a target was missed.";

/// Says what to measure, against whom.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = NOTES)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of its own on the command line"
)]
pub(crate) struct Bench {
    /// Measure one backend instead of both; may be repeated
    #[arg(long, value_enum)]
    backend: Vec<Backend>,
    /// Measure with N ranks instead of 2, 4 and 8; may be repeated
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    ranks: Vec<u16>,
    /// Let every contender run this often, in turns; below 9 there are no verdicts
    #[arg(long, value_name = "N", default_value_t = ROUNDS, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Call each row for about this long per contender and round
    #[arg(long, value_name = "S", default_value_t = 0.2, value_parser = seconds)]
    seconds: f64,
    /// Give a row up when a contender takes longer than this for it
    #[arg(long, value_name = "S", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=3600))]
    limit: u32,
    /// Measure small rows, large ones or all
    #[arg(long, value_enum, default_value_t = Sizes::All)]
    rows: Sizes,
    /// Leave out rows of more bytes
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// Compare with this library instead of all that are there; may be repeated
    #[arg(long, value_enum, conflicts_with = "no_peers")]
    peer: Vec<Peer>,
    /// Compare with nobody
    #[arg(long)]
    no_peers: bool,
    /// Write every figure to FILE as well
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Measure ours from 32 KiB to 4 MiB instead, to see steps where it changes its ways
    #[arg(long, conflicts_with_all = ["peer", "rows", "max_bytes"])]
    sweep: bool,
    /// Exit with 1 if a target was missed
    #[arg(long)]
    strict: bool,
    /// Measure programs that are not optimised: a test of this command, not of the library
    #[arg(long, hide_short_help = true)]
    unoptimised: bool,
}

/// Names a backend that has peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Backend {
    /// Shared memory
    Shm,
    /// Sockets on the loopback interface
    Tcp,
}

impl Backend {
    const ALL: [Self; 2] = [Self::Shm, Self::Tcp];

    const fn name(self) -> &'static str {
        match self {
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.001..=60.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0.001 to 60".to_owned()),
    }
}

/// Measures and prints; returns whether everything ran.
pub(crate) fn run(bench: &Bench) -> bool {
    match measure(bench) {
        Ok(good) => good,
        Err(reason) => {
            eprintln!("bench: {reason}");
            false
        }
    }
}

fn measure(bench: &Bench) -> Result<bool, String> {
    let mut record = Record::create(bench.csv.as_deref())?;
    let programs = build::ours(!bench.unoptimised)?;
    let field = Field::gather(bench, &programs)?;
    println!("{}", field.shown(bench));
    let contests = plan::contests(bench, &field);
    let figures = contests.iter().map(Contest::figures).sum::<u64>() * u64::from(bench.rounds);
    let mut progress = Progress::new(figures);
    let mut good = true;
    let mut done: Vec<(Backend, Done)> = Vec::new();
    for contest in contests {
        let backend = contest.backend;
        let outcome = play(bench, &programs, &contest, &mut record, &mut progress)?;
        good &= outcome
            .notes
            .iter()
            .all(|note| note.contender != Contender::Ours);
        done.push((backend, outcome));
    }
    drop(progress);
    let store = programs.store();
    contest::remove(&store).map_err(|why| format!("{}: {why}", store.display()))?;
    let mut missed = 0;
    for backend in Backend::ALL {
        let of_backend = done.iter().filter(|(of, _)| *of == backend);
        let sections: Vec<&Done> = of_backend.map(|(_, done)| done).collect();
        if !sections.is_empty() {
            missed += report(bench, backend, field.cores, &sections);
        }
    }
    let silent = field.silent(&done.iter().map(|(_, done)| &done.section.book));
    for peer in &silent {
        eprintln!("bench: {} was asked for and measured nothing", peer.name());
    }
    Ok(good && silent.is_empty() && !(bench.strict && missed > 0))
}

/// Holds what came of a contest.
struct Done {
    section: Section,
    /// What was measured of ours.
    measured: Vec<row::Row>,
    notes: Vec<Note>,
}

/// Plays all rounds with one backend and one number of ranks.
fn play(
    bench: &Bench,
    programs: &Programs,
    contest: &Contest,
    record: &mut Record,
    progress: &mut Progress,
) -> Result<Done, String> {
    let Contest {
        backend,
        ranks,
        crowded,
        ..
    } = *contest;
    let setting = Setting {
        programs,
        backend,
        ranks,
        crowded,
        seconds: bench.seconds,
        limit: bench.limit,
    };
    let all = contest.all_rows();
    let mut section = Section {
        ranks,
        rows: contest.compared.clone(),
        peers: contest.peers.clone(),
        book: book::Book::default(),
    };
    let mut entrants = vec![Entrant::new(Contender::Ours, all.clone())];
    let peers = contest.peers.iter();
    entrants.extend(peers.map(|&peer| Entrant::new(peer, contest.compared.clone())));
    let mut notes = Vec::new();
    let mut written = Ok(());
    for line in &contest.left_out {
        progress.say(line);
    }
    for round in 1..=bench.rounds {
        let name = backend.name();
        progress.enter(format!(
            "{name}, {ranks} ranks, round {round} of {}",
            bench.rounds
        ));
        let fresh = contest::round(
            round,
            &mut entrants,
            &setting,
            &mut section.book,
            |who, figure| match figure {
                None => progress.runs(who.name()),
                Some(figure) => {
                    progress.measured(who.name(), &figure.row.to_string());
                    let added = record.add((backend, ranks, round), who, figure);
                    if written.is_ok() {
                        written = added;
                    }
                }
            },
        );
        for Note { contender, text } in &fresh {
            let who = contender.name();
            progress.say(&format!(
                "{name}, {ranks} ranks, round {round}, {who}: {text}"
            ));
        }
        notes.extend(fresh);
        written.clone()?;
    }
    Ok(Done {
        section,
        measured: all,
        notes,
    })
}

/// Prints the tables of a backend; returns how many targets were missed.
fn report(bench: &Bench, backend: Backend, cores: usize, done: &[&Done]) -> usize {
    let lines = |of: &dyn Fn(&Done) -> Vec<Line>| -> Vec<Line> {
        done.iter().flat_map(|done| of(done)).collect()
    };
    let tables = if bench.sweep {
        let steps = lines(&|done| done.section.steps());
        vec![("twice the bytes", "half of it", steps)]
    } else {
        let peers = lines(&|done| done.section.with_peers(backend, cores));
        let own = lines(&|done| done.section.with_itself(backend, cores, &done.measured));
        vec![
            ("ours and the peers", "best peer", peers),
            ("ours alone", "to", own),
        ]
    };
    let mut missed = 0;
    for (what, other, lines) in tables {
        if lines.is_empty() {
            continue;
        }
        println!("\n{}\n", bold(&format!("## {}: {what}", backend.name())));
        println!("{}", table::markdown(&lines, other).trim_end());
        let below = |line: &&Line| line.verdict() == Some(Verdict::Misses);
        missed += lines.iter().filter(below).count();
    }
    missed
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::figure::Figure;
    use super::*;

    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        bench: Bench,
    }

    #[test]
    fn missed_targets_are_counted_in_all_tables() {
        let bench = Arguments::parse_from(["bench"]).bench;
        let read = |line: &str| Figure::read(line).unwrap();
        let [barrier, number] = [
            read("timing,barrier,0,7,5.0,5.0,"),
            read("timing,allreduce,8,7,1.0,1.0,"),
        ];
        let peer = read("timing,barrier,0,7,1.0,1.0,");
        let mut book = book::Book::default();
        for round in 1..=ROUNDS {
            book.record(round, Contender::Ours, barrier);
            book.record(round, Contender::Ours, number);
            book.record(round, Contender::Mpich, peer);
        }
        let section = Section {
            ranks: 2,
            rows: vec![barrier.row],
            peers: vec![Contender::Mpich],
            book,
        };
        let done = Done {
            section,
            measured: vec![barrier.row, number.row],
            notes: Vec::new(),
        };
        // A barrier slower than the peer's, and slower than an allreduce; an allreduce faster than a barrier holds.
        assert_eq!(report(&bench, Backend::Tcp, 2, &[&done]), 2);
        assert_eq!(report(&bench, Backend::Tcp, 2, &[]), 0);
    }

    #[test]
    fn a_file_that_cannot_be_written_fails_before_anything_is_built() {
        let folder = std::env::temp_dir();
        let arguments = ["bench", "--csv", &folder.to_string_lossy()].map(str::to_owned);
        assert!(!run(&Arguments::parse_from(arguments).bench));
    }
}
