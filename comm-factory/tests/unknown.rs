//! A variable with a misspelt name is warned of when a communicator is created, also by a program that names its backend; in a
//! process of its own, since its environment is what is tested.

use std::process::Command;

use comm_conformance::events;
use comm_factory::{BackendKind, create_communicator, create_communicator_with};
use rstest::rstest;

/// Names the role of the child.
const CHILD: &str = "FACTORY_TEST_CREATES";

/// What the child does; run as a test of its own by the other, and by nobody else.
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
