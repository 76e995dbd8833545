//! Separate environments for a rank: namespaces, created as root or, where the system permits it, as another
//! user.

#![allow(clippy::unwrap_used, reason = "a test fails where it is wrong")]

use std::process::{Command, ExitStatus, Stdio};

use comm_testing::not_run;

use super::{Outcome, finish, fresh_name};

/// The exit code of a script that lacks a permission.
pub const FORBIDDEN: i32 = 77;

/// Returns the command, `unshare` with its options, that creates namespaces of these kinds. Without such a
/// command the calling test does not run, and prints so.
///
/// Tries the actual operation of the test: matching words of a message would also hide failures of the test
/// itself.
pub fn unshare(kinds: &str) -> Option<String> {
    let mut reason = String::new();
    for user in ["", "--user --map-root-user "] {
        let command = format!("unshare {user}{kinds}");
        let words = command.split(' ').skip(1);
        match Command::new("unshare").args(words).arg("true").output() {
            Ok(output) if output.status.success() => return Some(command),
            Ok(output) => reason = String::from_utf8_lossy(&output.stderr).into_owned(),
            Err(error) => reason = format!("unshare: {error}"),
        }
    }
    not_run(reason);
    None
}

/// Returns whether a script lacked a permission; the test then does not run, and prints so.
pub fn is_forbidden(status: ExitStatus, output: &str) -> bool {
    let forbidden = status.code() == Some(FORBIDDEN);
    if forbidden {
        not_run(format_args!(
            "this user may not do what it is about: {output}"
        ));
    }
    forbidden
}

/// Runs a shell script that starts the ranks of `test` as `"$0" "$@"`, each with its `COBRE_SHM_RANK`.
pub fn script(test: &str, size: usize, script: &str, variables: &[(&str, &str)]) -> Outcome {
    let child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env("COMM_SHM_TEST_ROLE", test)
        .env("COBRE_SHM_NAME", fresh_name())
        .env("COBRE_SHM_SIZE", size.to_string())
        .envs(variables.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    finish(0, child)
}

/// Starts two ranks and waits for both.
pub const BOTH: &str = "for rank in 0 1; do COBRE_SHM_RANK=$rank \"$0\" \"$@\" & pids=\"$pids $!\"; done; \
                    for pid in $pids; do wait $pid; done";
