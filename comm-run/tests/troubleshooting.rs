//! The troubleshooting page and the README quote the real messages.
//!
//! The comment `<!-- try: NAME -->` above each quoted message tells this test how to provoke it. With `UPDATE_MESSAGES=1` the test
//! writes the messages into the documents instead of comparing them.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;
#[path = "../../comm-factory/tests/hello/mod.rs"]
mod hello;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use comm_factory::api::{CommError, Communicator, ReduceOp, SharedMemoryProvider};
use comm_testing::threads;
use common::{Starter, comm_run, fresh_mark};

const PAGE: &str = "docs/troubleshooting.md";
const README: &str = "README.md";

/// Provokes the message with this name, and returns it.
fn message(name: &str) -> String {
    match name {
        "unknown-backend" => alone(&[("COBRE_COMM_BACKEND", "smh")]),
        "no-feature" => alone(&[("COBRE_COMM_BACKEND", "mpi")]),
        "not-set" => alone(&[("COBRE_COMM_BACKEND", "shm")]),
        "announced" => alone(&[
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_STEP_ID", "0"),
        ]),
        "not-attached" => not_attached(),
        "no-coordinator" => tcp("1", &free_port(), &[]),
        "ranks-missing" => tcp("0", &free_port(), &[]),
        "port-in-use" => {
            let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            let port = taken.local_addr().unwrap().port();
            tcp("0", &port.to_string(), &[])
        }
        "no-secret" => tcp("1", &free_port(), &[("COBRE_TCP_COORDINATOR", "192.0.2.1")]),
        "secrets-differ" => secrets_differ(),
        "not-in-path" => refused_job(&["-n", "2", "--", "solver"]),
        "no-option" => refused_job(&["-np", "2", "--", "./solver"]),
        "killed" => of_rank_0(&job("kill", &[])),
        "left" => of_rank_0(&job("leave", &[])),
        "late" => of_rank_0(&job("hang", &[("COBRE_SHM_TIMEOUT_SECS", "1")])),
        "refused" => of_rank_0(&job("refuse", &[])),
        "mismatch" => first_error(threads(3, |comm| {
            if comm.rank() == 1 {
                comm.barrier()
            } else {
                comm.allreduce(&[1.0], &mut [0.0], ReduceOp::Sum)
            }
        })),
        "length" => first_error(threads(2, |comm| {
            comm.allreduce(&[1.0, 2.0], &mut [0.0; 3], ReduceOp::Sum)
        })),
        "busy" => comm_kit::words::busy("allreduce".into(), 0).to_string(),
        "no-memory" => without_number(
            &first_error(threads(1, |comm| {
                comm.create_shared_region::<f64>(1 << 50).map(drop)
            })),
            " bytes are available",
        ),
        _ => panic!("nothing provokes {name}"),
    }
}

/// The names of all messages.
const NAMES: [&str; 20] = [
    "unknown-backend",
    "no-feature",
    "not-set",
    "announced",
    "not-attached",
    "no-coordinator",
    "ranks-missing",
    "port-in-use",
    "no-secret",
    "secrets-differ",
    "not-in-path",
    "no-option",
    "killed",
    "left",
    "late",
    "refused",
    "mismatch",
    "length",
    "busy",
    "no-memory",
];

/// A program with shm and tcp that makes a mistake on request.
fn mishap() -> &'static str {
    static MISHAP: OnceLock<String> = OnceLock::new();
    hello::once(&MISHAP, || hello::example("mishap", "shm,tcp"))
}

/// Starts the program without a launcher.
fn rank(variables: &[(&str, &str)]) -> Child {
    let mut program = Command::new(mishap());
    program.args(["none", "0"]).env_clear();
    program.envs(variables.iter().copied());
    program.stdin(Stdio::null()).stdout(Stdio::null());
    program.stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the error of a rank, without the name of the program in front.
fn complaint(rank: Child) -> String {
    let output = rank.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    text.trim().trim_start_matches("mishap: ").to_owned()
}

fn alone(variables: &[(&str, &str)]) -> String {
    complaint(rank(variables))
}

fn not_attached() -> String {
    let name = format!("troubleshooting-{}", std::process::id());
    let variables = [
        ("COBRE_SHM_NAME", &*name),
        ("COBRE_SHM_RANK", "0"),
        ("COBRE_SHM_SIZE", "2"),
        ("COBRE_SHM_CONNECT_TIMEOUT_MS", "500"),
    ];
    alone(&variables).replace(&name, "job")
}

/// Finds a port on which no program listens.
fn free_port() -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port().to_string()
}

fn over_tcp<'a>(rank: &'a str, port: &'a str) -> Vec<(&'a str, &'a str)> {
    vec![
        ("COBRE_TCP_COORDINATOR", "127.0.0.1"),
        ("COBRE_TCP_PORT", port),
        ("COBRE_TCP_RANK", rank),
        ("COBRE_TCP_SIZE", "2"),
        ("COBRE_TCP_CONNECT_TIMEOUT_MS", "500"),
    ]
}

fn tcp(rank: &str, port: &str, more: &[(&str, &str)]) -> String {
    let variables = [&over_tcp(rank, port)[..], more].concat();
    alone(&variables).replace(port, "29500")
}

fn secrets_differ() -> String {
    let port = free_port();
    let ranks = ["0", "1"].map(|number| {
        let secret = format!("{number}, and long enough");
        let mut variables = over_tcp(number, &port);
        // Rank 1 must find rank 0, even on a slow machine.
        variables.extend([
            ("COBRE_TCP_SECRET", &*secret),
            ("COBRE_TCP_CONNECT_TIMEOUT_MS", "3000"),
        ]);
        rank(&variables)
    });
    let [_, told] = ranks.map(complaint);
    told.replace(&port, "29500")
}

/// Returns the first line that `comm-run` prints about a job that does not start.
fn refused_job(arguments: &[&str]) -> String {
    let ended = Starter::new(arguments).end();
    assert_ne!(ended.code(), 0, "{ended:?}");
    ended.stderr[0].clone()
}

/// Runs four ranks, of which rank 2 makes a mistake, and returns their messages.
fn job(way: &str, variables: &[(&str, &str)]) -> Vec<String> {
    let mark = fresh_mark();
    let mut command = comm_run(&["-n", "4", "--", mishap(), way, "2"], &mark);
    command.envs(variables.iter().copied());
    Starter::of(command, mark).end().stderr
}

fn of_rank_0(lines: &[String]) -> String {
    let mut own = lines
        .iter()
        .filter_map(|line| line.strip_prefix("[0] mishap: "));
    let found = own.next();
    found
        .unwrap_or_else(|| panic!("rank 0 says nothing: {lines:?}"))
        .to_owned()
}

fn first_error<T>(ranks: Vec<Result<T, CommError>>) -> String {
    let mut errors = ranks.into_iter().filter_map(Result::err);
    errors.next().unwrap().to_string()
}

/// Replaces the number in front of some words, which differs from machine to machine.
fn without_number(text: &str, words: &str) -> String {
    let (before, after) = text.split_once(words).unwrap();
    let before = before.trim_end_matches(|c: char| c.is_ascii_digit());
    format!("{before}8000000000{words}{after}")
}

/// Replaces the line of a program of ours by one of the reader's.
fn of_a_solver(text: &str) -> String {
    match text.rsplit_once(" (at ") {
        Some((words, place)) if place.contains(".rs:") && place.ends_with(')') => {
            format!("{words} (at src/solver.rs:88)")
        }
        _ => text.to_owned(),
    }
}

/// Returns the document with the current messages, and the names of the messages that it quotes.
fn with_messages(document: &str, message: impl Fn(&str) -> String) -> (String, BTreeSet<String>) {
    let mut names = BTreeSet::new();
    let mut parts = document.split("<!-- try: ");
    let mut pieces = vec![parts.next().unwrap().to_owned()];
    for part in parts {
        let (name, rest) = part.split_once(" -->\n```text\n").unwrap();
        let (_, after) = rest.split_once("\n```\n").unwrap();
        let now = message(name);
        pieces.push(format!(
            "<!-- try: {name} -->\n```text\n{now}\n```\n{after}"
        ));
        names.insert(name.to_owned());
    }
    (pieces.concat(), names)
}

fn compare(path: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path);
    let document = fs::read_to_string(&path).unwrap();
    let (now, names) = with_messages(&document, |name| of_a_solver(&message(name)));
    if std::env::var_os("UPDATE_MESSAGES").is_some() {
        fs::write(&path, now).unwrap();
    } else {
        let lines = document.lines().zip(now.lines());
        let differing: Vec<_> = lines.filter(|(quoted, now)| quoted != now).collect();
        assert!(
            differing.is_empty(),
            "{}: {differing:#?}",
            advice(&path.display())
        );
    }
    names
}

fn advice(path: &dyn Display) -> String {
    format!(
        "{path} quotes other messages; UPDATE_MESSAGES=1 corrects it, then read its advice again"
    )
}

#[test]
fn every_message_is_quoted_as_it_is() {
    comm_testing::watchdog();
    let names = compare(PAGE);
    assert_eq!(names, NAMES.map(str::to_owned).into());
}

#[test]
fn the_readme_shows_what_the_others_get_when_a_rank_is_killed() {
    comm_testing::watchdog();
    assert_eq!(compare(README), ["killed".to_owned()].into());
}

#[test]
fn a_message_that_changed_is_found() {
    let page = "# Page\n\n<!-- try: one -->\n```text\nold\n```\n\nText.\n";
    let (now, names) = with_messages(page, |name| format!("new {name}"));
    assert_eq!(now, page.replace("old", "new one"));
    assert_eq!(names, ["one".to_owned()].into());
}
