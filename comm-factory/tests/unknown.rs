//! Creating a communicator logs a warning about a variable with a misspelt name, even if the program names its backend. Runs in a
//! separate process, because it tests the environment.

use std::process::Command;

use comm_conformance::events;
use comm_factory::{BackendKind, create_communicator, create_communicator_with};
use rstest::rstest;

/// Names the role of the child.
const CHILD: &str = "FACTORY_TEST_CREATES";

/// The program of the child; only the other test runs this one, as a process.
#[test]
fn create() {
    let Some(kind) = std::env::var_os(CHILD) else {
        return;
    };
    let _turn = events::listen();
    let created = match kind.to_str() {
        Some("local") => create_communicator_with(BackendKind::Local),
        _ => create_communicator(),
    };
    created.expect("nothing asks for another backend");
    for line in events::lines().iter() {
        println!("heard {line}");
    }
}

#[rstest]
fn a_variable_that_nothing_reads_is_warned_of_once(#[values("auto", "local")] kind: &str) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--nocapture", "--test-threads", "1", "--exact", "create"]);
    command.env(CHILD, kind).env("COBRE_COM_BACKEND", "shm");
    command.env("COBRE_JOB_ID", "known");
    let output = command.output().expect("a child");
    let text = String::from_utf8_lossy(&output.stdout);
    let heard: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("heard "))
        .collect();
    assert!(output.status.success(), "{text}");
    assert_eq!(heard.len(), 1, "{text}");
    for part in [
        "WARN",
        "COBRE_COM_BACKEND is set",
        "did you mean COBRE_COMM_BACKEND?",
    ] {
        assert!(heard[0].contains(part), "{text}");
    }
}
