//! Creates a backend in a copy of the workspace, and runs the checks of every crate of the workspace on it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use super::{format, generate};
use crate::process::{Terminal, cargo, command, copy_tree, workspace_root};
use crate::report::Outcome;

/// The name of the step.
pub(crate) const WHAT: &str =
    "a new backend, in a copy of the workspace, is clean and passes the suite";

/// So long that lines of the template must be broken.
const NAME: &str = "echochamber";

/// Runs the step.
pub(crate) fn outcome(terminal: &Terminal) -> Outcome {
    let copy = workspace_root().join("target").join("new-backend");
    match made(&copy).and_then(|()| commands(&copy)) {
        Ok(commands) => terminal.run_all(commands),
        Err(reason) => Outcome::Failed(reason),
    }
}

/// Copies the workspace and creates a backend in the copy. Keeps crates that were compiled there before.
fn made(copy: &Path) -> Result<(), String> {
    let in_words = |error: io::Error| format!("no copy of the workspace: {error}");
    for entry in fs::read_dir(copy).into_iter().flatten().flatten() {
        if entry.file_name() != "target" {
            let path = entry.path();
            let removed = if path.is_dir() {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
            removed.map_err(in_words)?;
        }
    }
    let wanted = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name != ".git" && !(path.is_dir() && name.starts_with("target"))
    };
    copy_tree(&workspace_root(), copy, &wanted).map_err(in_words)?;
    generate(copy, NAME)?;
    format(copy, NAME)
}

/// Lists the checks of every crate of the workspace. Only the crates of the workspace are compiled again, because for cargo those of
/// the copy are different.
fn commands(copy: &Path) -> Result<Vec<Command>, String> {
    let package = ["--package", "comm-echochamber"];
    let clippy = [
        &["clippy", "--all-targets"],
        &package[..],
        &["--", "-D", "warnings"],
    ]
    .concat();
    let test = [&["test"], &package[..]].concat();
    let mut commands = vec![cargo(&clippy), cargo(&test)];
    for command in &mut commands {
        command.current_dir(copy);
        command.env("CARGO_BUILD_BUILD_DIR", workspace_root().join("target"));
    }
    let own = std::env::current_exe()
        .map_err(|why| format!("the path of this program is unknown: {why}"))?;
    let root = copy.display().to_string();
    commands.push(command(
        &own.display().to_string(),
        &["tidy", "--root", &root],
    ));
    Ok(commands)
}
