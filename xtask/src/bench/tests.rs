//! Tests of the whole command, and helpers of other tests.

use clap::Parser;

use super::contender::{Contender, Peer, Setting};
use super::figure::Figure;
use super::plan::Contest;
use super::row::Op;
use super::*;

pub(super) fn bench(arguments: &[&str]) -> Bench {
    #[derive(Parser)]
    struct Arguments {
        #[command(flatten)]
        bench: Bench,
    }
    let arguments = [&["bench"], arguments].concat();
    Arguments::parse_from(arguments).bench
}

pub(super) fn figure(row: Row, median: f64) -> Figure {
    Figure {
        row,
        calls: 1,
        median,
        p99: median,
        span: (row.op == Op::Broadcast).then_some(median * 3.0),
    }
}

pub(super) fn setting(backend: Backend, ranks: usize, crowded: bool) -> Setting {
    Setting {
        backend,
        ranks,
        crowded,
        seconds: 0.2,
        limit: 20,
    }
}

#[test]
fn missed_targets_are_counted_in_all_tables() {
    let (barrier, number) = (Row::new(Op::Barrier, 0), Row::new(Op::Allreduce, 8));
    let mut book = book::Book::default();
    for round in 1..=ROUNDS {
        book.figure(round, Contender::Ours, &figure(barrier, 5.0));
        book.figure(round, Contender::Ours, &figure(number, 1.0));
        book.figure(round, Contender::Peer(Peer::Mpich), &figure(barrier, 1.0));
    }
    let contest = Contest {
        setting: setting(Backend::Tcp, 2, false),
        peers: vec![Contender::Peer(Peer::Mpich)],
        compared: vec![barrier],
        extra: vec![number],
        left_out: Vec::new(),
    };
    let results = Results {
        contest,
        book,
        good: true,
    };
    // A barrier that is slower than the peer's and slower than an allreduce; an allreduce that is faster than a barrier holds.
    let bench = bench(&[]);
    assert_eq!(print(&tables(&bench, 2, &[results])), 2);
    assert_eq!(print(&tables(&bench, 2, &[])), 0);
}

#[test]
fn a_file_that_cannot_be_written_fails_before_anything_is_built() {
    let folder = std::env::temp_dir();
    for option in ["--csv", "--plot"] {
        assert!(!run(&bench(&[option, &folder.to_string_lossy()])));
    }
}

#[test]
fn rows_above_the_noise_are_counted_among_those_that_count() {
    let mut book = book::Book::default();
    let (barrier, told) = (Row::new(Op::Barrier, 0), Row::new(Op::Broadcast, 8));
    for round in 1..=ROUNDS {
        for (row, ours) in [(barrier, 1.0), (told, 2.0)] {
            book.figure(round, Contender::Ours, &figure(row, ours));
            book.figure(round, Contender::Peer(Peer::Mpich), &figure(row, 1.0));
        }
    }
    let contest = Contest {
        setting: setting(Backend::Tcp, 2, false),
        peers: vec![Contender::Peer(Peer::Mpich)],
        compared: vec![barrier, told],
        extra: Vec::new(),
        left_out: Vec::new(),
    };
    let results = [Results {
        contest,
        book,
        good: true,
    }];
    let line = |results: &[Results]| above_all(&tables(&bench(&[]), 2, results));
    // The broadcast counts by its span, not by its slowest call.
    let expected = "above 1.05 of the best peer: 1 of 2 rows that count";
    assert_eq!(line(&results).as_deref(), Some(expected));
    assert_eq!(line(&[]), None);
}

/// Finds the number that follows a name in a source.
fn number_after(source: &str, name: &str) -> Option<u64> {
    let (_, rest) = source.split_once(name)?;
    let number = rest.split([',', ';', ' ', ')']).next()?;
    let digits = number.replace('_', "");
    let digits = digits.trim_end_matches("ULL");
    match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    }
}

#[test]
fn ours_and_the_peers_wait_for_the_same_ticks_with_the_same_jitter() {
    let read = |path| {
        let path = crate::process::workspace_root().join(path);
        std::fs::read_to_string(path).unwrap()
    };
    let ours = read("comm-factory/examples/timings/tick.rs");
    let peers = read("xtask/peers/measure.h");
    for name in ["TICK", "SPIN", "JITTER"] {
        let mine = number_after(&ours, &format!("const {name}: u64 = "));
        assert_eq!(mine, number_after(&peers, &format!(" {name} = ")), "{name}");
        assert!(mine.is_some_and(|nanos| nanos >= 1000), "{name}");
    }
    for shift in [30, 27] {
        let mine = number_after(&ours, &format!("(bits >> {shift})).wrapping_mul("));
        let theirs = number_after(&peers, &format!("(bits >> {shift})) * "));
        assert!(mine.is_some() && mine == theirs, "{mine:?} {theirs:?}");
    }
}

#[test]
fn backends_over_mpi_are_measured_when_asked_for() {
    assert_eq!(bench(&[]).backends(), [Backend::Shm, Backend::Tcp]);
    let named = bench(&["--backend", "mpi-openmpi,tcp"]).backends();
    assert_eq!(named, [Backend::Tcp, Backend::MpiOpenMpi]);
    for backend in Backend::ALL {
        let value = backend.to_possible_value();
        assert!(value.is_some_and(|value| value.get_name() == backend.name()));
    }
}

#[test]
fn small_and_large_are_all_and_share_nothing() {
    for row in Row::usual() {
        assert!(Sizes::Small.has(row) != Sizes::Large.has(row), "{row}");
        assert!(Sizes::All.has(row), "{row}");
    }
    assert!(Sizes::Small.has(Row::new(Op::Allgatherv, 65_536)));
    assert!(Sizes::Large.has(Row::new(Op::Allreduce, 1 << 20)));
}

#[test]
fn a_folder_without_our_measuring_program_is_no_checkout() {
    let root = crate::process::workspace_root();
    assert!(checkout(&root.to_string_lossy()).is_ok());
    assert!(checkout(&root.join("docs").to_string_lossy()).is_err());
    assert!(checkout("no-such-folder").is_err());
}
