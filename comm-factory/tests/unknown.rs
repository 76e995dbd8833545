//! A variable with a misspelt name is warned of when a communicator is created; in a process of its own, since its
//! environment is what is tested.

use std::process::Command;

use comm_conformance::events;

/// Names the role of the child.
const CHILD: &str = "FACTORY_TEST_CREATES";

#[test]
fn a_variable_that_nothing_reads_is_warned_of_once() {
    if std::env::var_os(CHILD).is_some() {
        let _turn = events::listen();
        comm_factory::create_communicator().expect("nothing asks for another backend");
        for line in events::lines().iter() {
            println!("heard {line}");
        }
        return;
    }
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--nocapture", "--test-threads", "1", "--exact"]);
    command.arg("a_variable_that_nothing_reads_is_warned_of_once");
    command.env(CHILD, "1").env("COBRE_COM_BACKEND", "shm");
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
