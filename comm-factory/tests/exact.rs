//! Variables with bytes that are not UTF-8: a secret is used exactly, every other variable is rejected.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use comm_factory::api::Communicator;
use rstest::rstest;

/// Marks a process of this program as a rank.
const ROLE: &str = "COMM_FACTORY_TEST_ROLE";

/// How long a rank may take before it ends itself.
const WATCHDOG: Duration = Duration::from_secs(30);

/// The program of a rank; only the other tests run this one, as a process.
#[test]
fn one_rank() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    std::thread::spawn(|| {
        std::thread::sleep(WATCHDOG);
        std::process::exit(3);
    });
    match comm_factory::create_communicator() {
        Ok(comm) => {
            let result = comm.barrier();
            println!("report: {} {} {result:?}", comm.name(), comm.size());
        }
        Err(error) => println!("report: {error}"),
    }
}

/// Starts one of two ranks, which reads its variables as a user's program does.
fn start(rank: usize, port: u16, variables: &[(&str, &[u8])]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "one_rank", "--nocapture", "--test-threads", "1"])
        .env(ROLE, "rank")
        .env("COBRE_COMM_BACKEND", "tcp")
        .env("COBRE_TCP_COORDINATOR", "127.0.0.1")
        .env("COBRE_TCP_PORT", port.to_string())
        .env("COBRE_TCP_RANK", rank.to_string())
        .env("COBRE_TCP_SIZE", "2")
        .env("COBRE_TCP_CONNECT_TIMEOUT_MS", "8000");
    for (name, value) in variables {
        command.env(name, OsStr::from_bytes(value));
    }
    command.stdout(Stdio::piped()).spawn().unwrap()
}

fn report(rank: Child) -> String {
    let output = rank.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|line| line.split_once("report: "));
    line.unwrap_or_else(|| panic!("no report: {text}"))
        .1
        .to_owned()
}

/// Runs two ranks with different values of a variable.
fn job(name: &str, values: [&[u8]; 2]) -> [String; 2] {
    let probe = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = probe.local_addr().unwrap().port();
    drop(probe);
    let ranks = [0, 1].map(|rank| start(rank, port, &[(name, values[rank])]));
    ranks.map(report)
}

#[rstest]
#[case::not_utf_8(b"\xff key", b"\xfe key")]
#[case::no_break_space(b"key\xc2\xa0", b"key")]
fn two_secrets_that_differ_in_any_byte_do_not_join(#[case] zero: &[u8], #[case] one: &[u8]) {
    let reports = job("COBRE_TCP_SECRET", [zero, one]);
    assert!(reports[1].contains("the secrets differ"), "{reports:?}");
    assert!(reports[0].contains("did not join"), "{reports:?}");
}

#[test]
fn a_secret_of_any_bytes_joins_its_equal() {
    let secret = b"\xff\x80 not text \xfe";
    let reports = job("COBRE_TCP_SECRET", [secret, secret]);
    assert_eq!(reports, ["tcp 2 Ok(())", "tcp 2 Ok(())"]);
}

#[rstest]
#[case::the_backend("COBRE_COMM_BACKEND")]
#[case::the_job("COBRE_JOB_ID")]
#[case::the_coordinator("COBRE_TCP_COORDINATOR")]
#[case::a_file("COBRE_TCP_SECRET_FILE")]
#[case::a_timeout("COBRE_TCP_TIMEOUT_SECS")]
#[case::a_launcher("PMI_RANK")]
fn what_cannot_be_taken_exactly_is_refused(#[case] name: &str) {
    for report in job(name, [b"1\xff", b"1\xfe"]) {
        assert!(report.contains(name), "{report}");
        assert!(report.contains("not UTF-8"), "{report}");
    }
}

#[test]
fn what_nobody_reads_may_hold_any_bytes() {
    let reports = job("LS_COLORS", [b"\xff", b"\xfe"]);
    assert_eq!(reports, ["tcp 2 Ok(())", "tcp 2 Ok(())"]);
}
