//! What a rank reads from its environment, in a separate process.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;

use comm_tcp::{Encryption, TcpConfig};

const ROLE: &str = "COMM_TCP_TEST_ROLE";

/// Runs `check` in a process with these variables: this program starts itself again as the test of this name.
fn with_environment(test: &str, variables: &[(&str, &str)], check: impl FnOnce()) {
    comm_testing::watchdog();
    if std::env::var(ROLE).is_ok_and(|role| role == test) {
        return check();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(ROLE, test)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

#[test]
fn every_variable_of_the_environment_is_read() {
    let variables = [
        ("COBRE_TCP_COORDINATOR", "10.0.0.5"),
        ("COBRE_TCP_PORT", "4000"),
        ("COBRE_TCP_RANK", "2"),
        ("COBRE_TCP_SIZE", "3"),
        ("COBRE_TCP_TIMEOUT_SECS", "1.5"),
        ("COBRE_TCP_CONNECT_TIMEOUT_MS", "250"),
        ("COBRE_TCP_BIND_ADDR", "::1"),
        ("COBRE_TCP_SECRET", "hush"),
        ("COBRE_TCP_INSECURE", "1"),
        ("COBRE_TCP_ENCRYPT", "0"),
        ("COBRE_TCP_LISTEN_FD", "3"),
        ("COBRE_JOB_ID", "j"),
    ];
    with_environment(
        "every_variable_of_the_environment_is_read",
        &variables,
        || {
            let mut expected = TcpConfig::new("10.0.0.5", 2, 3);
            expected.port = 4000;
            expected.timeout = Some(Duration::from_millis(1500));
            expected.connect_timeout = Duration::from_millis(250);
            expected.bind_addr = Some("::1".parse().unwrap());
            expected.secret = Some("hush".into());
            expected.insecure = true;
            expected.encryption = Encryption::Off;
            expected.listen_fd = Some(3);
            expected.job_id = Some("j".into());
            assert_eq!(TcpConfig::from_env(), Ok(expected));
        },
    );
}

/// An empty variable counts as not set: the value from the launcher takes its place.
#[test]
fn an_empty_variable_leaves_its_place_to_another() {
    let variables = [
        ("COBRE_TCP_COORDINATOR", "127.0.0.1"),
        ("COBRE_TCP_RANK", ""),
        ("COBRE_TCP_SIZE", " "),
        ("COBRE_TCP_PORT", "4000"),
    ];
    with_environment(
        "an_empty_variable_leaves_its_place_to_another",
        &variables,
        || {
            let more = [
                ("COBRE_TCP_RANK", "1"),
                ("COBRE_TCP_SIZE", "4"),
                ("COBRE_TCP_PORT", "5000"),
            ];
            let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let config = TcpConfig::from_env_and(&BTreeMap::from(more)).unwrap();
            assert_eq!((config.rank, config.size, config.port), (1, 4, 4000));
        },
    );
}
