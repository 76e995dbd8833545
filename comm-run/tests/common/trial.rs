//! Finds out what this user may do on this system: by doing it.

use std::process::{Command, Stdio};

use comm_testing::not_run;

/// Runs a program to its end, or returns why it did not succeed, in its own words.
pub fn attempt(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().display().to_string();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let words = String::from_utf8_lossy(&output.stderr);
    Err(format!("{program}: {}: {}", output.status, words.trim()))
}

/// Returns whether what a test needs works, which `command` does and nothing else; otherwise the test does not run, and says so.
pub fn works(command: &mut Command) -> bool {
    attempt(command).map_err(not_run).is_ok()
}

/// Returns `unshare`, with the `options` that make namespaces, in which an ordinary user is root, and a program to run there.
pub fn unshare(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(options).args(program);
    command
}
