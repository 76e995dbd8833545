//! Finds out what this user may do on this system, by trying it.

use std::process::{Command, Stdio};

use comm_testing::not_run;

/// Runs a program to its end; if it fails, returns its own error message.
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

/// Returns whether `command` succeeds, which does only what a test needs; otherwise prints that the test does not run.
pub fn works(command: &mut Command) -> bool {
    attempt(command).map_err(not_run).is_ok()
}

/// Returns a call of `unshare` that runs a program in new namespaces, in which an ordinary user is root.
pub fn unshare(options: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.arg("--map-root-user").args(options).args(program);
    command
}
