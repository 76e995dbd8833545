//! The program `fixtures/heat`, a separate crate written from the documentation alone: the same bits on every backend, and the
//! message for each mistake. `comm-factory/tests/heat_mpi.rs` does the same with MPI.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/heat/mod.rs"]
mod heat;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use common::{Ended, Folder, Starter, comm_run, fresh_mark};
use serde_json::{Value, json};

/// Returns the path of the program.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    hello::once(&PROGRAM, || heat::build(""))
}

fn document(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join(path)).unwrap()
}

/// Runs it without a launcher, with these variables and no others.
fn alone(variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program());
    let command = command.env_clear().envs(variables.iter().copied());
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn the_same_bits_everywhere() {
    let output = alone(&[]);
    assert_eq!(hello::sorted(&output.stdout), [heat::LINE], "{output:?}");
    for (backend, ranks) in [
        ("shm", "1"),
        ("shm", "2"),
        ("shm", "5"),
        ("tcp", "2"),
        ("tcp", "3"),
    ] {
        let args = ["-n", ranks, "--backend", backend, "--", program()];
        let ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 0, "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, [format!("[0] {}", heat::LINE)], "{args:?}");
    }
}

/// A mistake of the last of three ranks: its name, the exit code of the job, and the messages of each rank.
type Mistake = (&'static str, i32, &'static [&'static str]);

const MISTAKES: [Mistake; 12] = [
    ("nothing", 0, &[]),
    (
        "length",
        1,
        &[
            "[0] Error: allreduce: mismatch, rank 2: ranks 0, 1 called allreduce(Sum of 10 f64), rank 2 called allreduce(Sum of 9 f64); \
             all ranks must call the same collectives",
            "comm-run: rank 2 exited with code 1",
        ],
    ),
    (
        "order",
        1,
        &[
            "[1] Error: allreduce: mismatch, rank 2: ranks 0, 1 called allreduce(Sum of 1 i32), rank 2 called barrier;",
            "[2] Error: barrier: mismatch, rank 2:",
        ],
    ),
    (
        "root",
        1,
        &["from root 0), rank 2 called broadcast(1 elements of 8 bytes, u64, from root 1);"],
    ),
    (
        "receive",
        1,
        &[
            "[2] Error: allgatherv: ",
            "[0] Error: allgatherv: refused, rank 2: it was called with invalid arguments: ",
            "the communicator is still usable",
            "comm-run: rank 2 exited with code 1",
            " reported it: refused",
        ],
    ),
    (
        "no-such-root",
        1,
        &[
            "[2] Error: broadcast: root 3 is not a rank of a communicator of size 3; use 0..3",
            "[1] Error: broadcast: refused, rank 2: it was called with invalid arguments: ",
            "comm-run: rank 2 exited with code 1",
            " reported it: refused",
        ],
    ),
    ("threads", 0, &[]),
    (
        "one-for-two",
        1,
        &[
            "[2] Error: barrier: refused, rank 2: another thread",
            "comm-run: rank 2 exited with code 1",
        ],
    ),
    (
        "early",
        1,
        &[
            "[0] Error: barrier: peer lost, rank 2: it dropped its communicator or region",
            "comm-run: rank 2 exited with code 0 before the others were done",
        ],
    ),
    (
        "panic",
        101,
        &[
            "[0] Error: barrier: peer lost, rank 2: it panicked",
            "comm-run: rank 2 exited with code 101",
            "comm-run:   [2] this rank has divided by zero",
        ],
    ),
    (
        "input",
        1,
        &[
            "[2] Error: read: application failure: case.json: no such file",
            "comm-run: rank 2 exited with code 1",
        ],
    ),
    (
        "exit",
        7,
        &[
            "[1] Error: barrier: peer lost, rank 2: its process ended",
            "rank 2 exited with code 7",
        ],
    ),
];

/// Makes all mistakes in concurrent jobs, and checks the messages of each.
fn make_mistakes(backend: &str) {
    let jobs = MISTAKES.map(|(mistake, code, said)| {
        let args = ["-n", "3", "--backend", backend, "--", program(), mistake];
        let mark = fresh_mark();
        let mut command = comm_run(&args, &mark);
        command.env_remove("RUST_BACKTRACE");
        (mistake, code, said, Starter::of(command, mark))
    });
    for (mistake, code, said, job) in jobs {
        let ended = job.end();
        assert_eq!(ended.code(), code, "{mistake}: {ended:?}");
        check(&ended, mistake, said);
    }
}

/// An error that `main` returns is printed as its sentence, never as the fields of an enum.
fn check(ended: &Ended, mistake: &str, said: &[&str]) {
    for words in said {
        assert!(ended.says(words), "{mistake}: {words:?} in {ended:#?}");
    }
    for fields in ["CollectiveFailed", "InvalidRoot", "mpi_error_code", " { "] {
        assert!(!ended.says(fields), "{mistake}: {ended:#?}");
    }
}

#[test]
fn every_mistake_has_its_sentence_on_shm() {
    make_mistakes("shm");
}

#[test]
fn every_mistake_has_its_sentence_on_tcp() {
    make_mistakes("tcp");
}

/// Over tcp each rank has its own copy of a region, so nothing can fail.
#[test]
fn a_failed_fence_leaves_the_communicator_usable() {
    let mut source = include_str!("../../fixtures/heat/src/mistakes.rs").lines();
    let line = source
        .position(|line| line.contains("plate.fence()"))
        .unwrap()
        + 1;
    let sentence = |rank| {
        format!(
            "[{rank}] fence: peer lost, rank 2: it dropped its communicator or region before it contributed; \
             look at what it printed last, then restart the job (at src/mistakes.rs:{line}); fatal to: Some(Region)"
        )
    };
    for (backend, said) in [("shm", vec![sentence(0), sentence(1)]), ("tcp", vec![])] {
        let args = ["-n", "3", "--backend", backend, "--", program(), "fence"];
        let mut ended = Starter::new(&args).end();
        assert_eq!(ended.code(), 0, "{backend}: {ended:?}");
        ended.stderr.sort();
        assert_eq!(ended.stderr, said, "{backend}");
        ended.stdout.sort();
        let lines = [0, 1, 2].map(|rank| format!("[{rank}] the communicator goes on"));
        assert_eq!(ended.stdout, lines, "{backend}");
    }
}

/// The events that a script reads instead of sentences.
#[test]
fn the_events_of_a_mistake_have_short_names() {
    for backend in ["shm", "tcp"] {
        for (mistake, kind) in [
            ("length", "mismatch"),
            ("exit", "peer_lost"),
            ("receive", "refused"),
        ] {
            let folder = Folder::new();
            let file = folder.join("events");
            let events = file.to_str().unwrap();
            let job = ["-n", "3", "--backend", backend, "--events", events];
            let args = [&job[..], &["--", program(), mistake]].concat();
            let ended = Starter::new(&args).end();
            let text = fs::read_to_string(&file).unwrap();
            let events: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
            let [started, cause, end] = &events.unwrap()[..] else {
                panic!("{text}");
            };
            assert_eq!(started["backend"], backend, "{text}");
            assert_eq!(cause["rank"], 2, "{text}");
            assert_eq!(cause["reported"], kind, "{text}");
            // A rank without a processor for half a second is ended before it can report.
            let named_by = [json!([0, 1]), json!([0]), json!([1])];
            assert!(named_by.contains(&cause["named_by"]), "{text}");
            assert_eq!(end["exit_code"], ended.code(), "{text}");
        }
    }
}

#[test]
fn a_rank_that_computes_for_too_long_is_named() {
    for (backend, variable) in [
        ("shm", "COBRE_SHM_TIMEOUT_SECS"),
        ("tcp", "COBRE_TCP_TIMEOUT_SECS"),
    ] {
        let setting = format!("{variable}=1");
        let args = [
            "-n",
            "3",
            "--backend",
            backend,
            "--env",
            &setting,
            "--",
            program(),
            "slow",
        ];
        let ended = Starter::new(&args).end();
        let remedy = format!(
            "did not enter the call within 1s; increase {variable} if ranks compute longer than that"
        );
        let said = [
            "barrier: timed out, rank 2: rank 2 ",
            &remedy,
            "rank 2 hung and was terminated (SIGTERM)",
        ];
        check(&ended, "slow", &said);
    }
}

/// A program that is started with wrong variables prints one line.
#[test]
fn wrong_variables_have_their_sentence() {
    let cases: [(&[(&str, &str)], &str); 6] = [
        (
            &[("COBRE_COMM_BACKEND", "mpi")],
            "Error: the mpi backend is not compiled in, this program has tcp, shm, local; build it with the feature \"mpi\" of comm-factory",
        ),
        (
            &[("COBRE_COMM_BACKEND", "smh")],
            "Error: COBRE_COMM_BACKEND: there is no backend \"smh\", did you mean \"shm\"",
        ),
        (
            &[("COBRE_COMM_BACKEND", "shm")],
            "Error: shm: not set: COBRE_SHM_NAME, COBRE_SHM_RANK, COBRE_SHM_SIZE; set them, or start the ranks with comm-run",
        ),
        (
            &[("COBRE_COMM_BACKEND", "tcp"), ("COBRE_TCP_RANK", "x")],
            "Error: tcp: COBRE_TCP_RANK=\"x\" is not a number; correct or unset it; not set: COBRE_TCP_COORDINATOR, COBRE_TCP_SIZE",
        ),
        (
            &[
                ("COBRE_COMM_BACKEND", "tcp"),
                ("RANK", "0"),
                ("WORLD_SIZE", "2"),
            ],
            "Error: tcp: RANK=0 WORLD_SIZE=2 announces ranks, but the variables to connect them are not set: COBRE_TCP_COORDINATOR;",
        ),
        (
            &[("PMI_RANK", "0"), ("PMI_SIZE", "2")],
            "Error: the mpi backend is not compiled in",
        ),
    ];
    for (variables, sentence) in cases {
        let output = alone(variables);
        assert_eq!(output.status.code(), Some(1), "{variables:?}");
        let said = hello::sorted(&output.stderr);
        assert!(
            said.len() == 1 && said[0].starts_with(sentence),
            "{said:#?}"
        );
    }
}

#[test]
fn a_misspelt_variable_is_explained() {
    let mark = fresh_mark();
    let mut command = comm_run(&["explain"], &mark);
    command.env("COBRE_COM_BACKEND", "shm");
    let ended = Starter::of(command, mark).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let warning =
        "warning: COBRE_COM_BACKEND is set, and nothing reads it; did you mean COBRE_COMM_BACKEND?";
    let said = ended.stdout.iter().chain(&ended.stderr);
    assert_eq!(said.filter(|line| *line == warning).count(), 1, "{ended:?}");
}

/// A name as POSIX writes it, with a leading slash.
#[test]
fn a_segment_may_have_the_name_that_posix_wants() {
    let name = format!("/heat-{}", fresh_mark());
    let start = |rank| {
        let mut command = Command::new(program());
        command
            .env("COBRE_SHM_NAME", &name)
            .env("COBRE_SHM_RANK", rank);
        command.env("COBRE_SHM_SIZE", "2").stdin(Stdio::null());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let ranks = ["0", "1"]
        .map(start)
        .map(|rank| rank.wait_with_output().unwrap());
    assert!(ranks.iter().all(|rank| rank.status.success()), "{ranks:?}");
    assert_eq!(hello::sorted(&ranks[0].stdout), [heat::LINE]);
    assert!(ranks[1].stdout.is_empty());
}

/// The documents show the dependency of this program, except for its path, and its derives.
#[test]
fn the_program_is_as_the_documents_say() {
    let manifest = document("fixtures/heat/Cargo.toml");
    let dependency = "\n[dependencies]\ncomm-factory = { version = \"0.1.0\", path = \"../../comm-factory\", features = [\"shm\", \"tcp\"] }\n";
    assert!(manifest.contains(dependency), "{manifest}");
    let command = "\ncargo add comm-factory --path ../cobre-comm/comm-factory --features shm,tcp\n";
    assert!(document("README.md").contains(command), "{command}");
    let guide = document("docs/guides/coming-from-mpi.md");
    let (_, code) = guide.split_once("\n```rust\n").unwrap();
    let (code, _) = code.split_once("```\n").unwrap();
    let program = document("fixtures/heat/src/plate.rs");
    for line in code.lines() {
        assert!(program.lines().any(|other| other == line), "{line}");
    }
}
