//! The short examples of comm-factory print exactly the same on every backend and with any number of ranks.
#![cfg(target_os = "linux")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::Starter;

/// A job: backend, ranks, and the arguments of the program.
type Job = (&'static str, &'static str, &'static [&'static str]);

/// Builds an example, runs it alone and in these jobs, and compares the output of the jobs with its output alone.
fn same_in(jobs: &[Job], example: &str, expected: &str) {
    let program = hello::example(example, "shm,tcp");
    let output = Command::new(&program).env_clear().output();
    let alone = hello::sorted(&output.expect("it starts").stdout);
    assert!(alone.len() == 1 && alone[0].contains(expected), "{alone:?}");
    for &(backend, ranks, told) in jobs {
        let args = ["-n", ranks, "--backend", backend, "--", &program];
        let args = [&args[..], told].concat();
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 0, "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, [format!("[0] {}", alone[0])], "{args:?}");
    }
}

const ANY_NUMBER_OF_RANKS: [Job; 8] = [
    ("shm", "1", &[]),
    ("shm", "2", &[]),
    ("shm", "3", &[]),
    ("shm", "4", &[]),
    ("tcp", "1", &[]),
    ("tcp", "2", &[]),
    ("tcp", "3", &[]),
    ("tcp", "4", &[]),
];

#[test]
fn a_mean_has_the_same_bits() {
    // (2 + sqrt 2 + 5 ln (1 + sqrt 2)) / 15 is 0.521405.
    same_in(&ANY_NUMBER_OF_RANKS, "mean", "mean distance 0.521");
}

#[test]
fn a_shared_table_answers_the_same() {
    same_in(&ANY_NUMBER_OF_RANKS, "table", "230631 takes 442 steps");
}

/// Two threads of every rank are inside collectives at once, each with its own communicator.
#[test]
fn two_threads_add_up_the_same() {
    let expected = "numbers below 10000: 49995000, their squares: 333283335000";
    same_in(&ANY_NUMBER_OF_RANKS, "threads", expected);
}

/// The program of the README prints where it ran; the rest of its output is the same, and is printed once.
#[test]
fn the_program_of_the_readme_prints_once() {
    let readme = document("README.md");
    let shows = |line: &str| assert!(readme.contains(&format!("\n{line}\n")), "{line}");
    let program = hello::example("quickstart", "shm,tcp");
    let alone = Command::new(&program).env_clear().output();
    let alone = hello::sorted(&alone.expect("it starts").stdout);
    assert_eq!(alone, ["pi is 3.141593, from 1 x local"]);
    shows(&alone[0]);
    for backend in ["shm", "tcp"] {
        let ended = Starter::new(&["-n", "3", "--backend", backend, "--", &program]).end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let line = format!("[0] pi is 3.141593, from 3 x {backend}");
        assert_eq!(ended.stdout, [line.as_str()], "{ended:?}");
        shows(&line);
    }
}

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    fs::read_to_string(root.expect("a workspace").join(path)).expect("a document")
}

/// The numbers do not depend on how they are split over ranks and threads, and neither must the sums.
#[test]
fn exact_sums_have_the_same_bits_for_any_ranks_and_threads() {
    let ranks_and_threads: [Job; 6] = [
        ("shm", "2", &["1"]),
        ("tcp", "3", &["2"]),
        ("shm", "5", &["3"]),
        ("tcp", "7", &["1"]),
        ("shm", "8", &["4"]),
        ("tcp", "8", &["3"]),
    ];
    same_in(&ranks_and_threads, "statistics", "bits");
}
