//! Makes a backend in a copy of the workspace, and holds it to what every crate of the workspace is held to.

use std::fs;
use std::io;
use std::path::Path;

use tempfile::TempDir;

use super::{format, generate};
use crate::process::{cargo, run, shown, workspace_root};
use crate::report::Outcome;
use crate::tidy;

/// Names the step.
pub(crate) const WHAT: &str =
    "a new backend, in a copy of the workspace, is clean and passes the suite";

/// Long enough that lines of the template must be broken.
const NAME: &str = "echochamber";

/// Runs the step.
pub(crate) fn outcome() -> Outcome {
    match made() {
        Ok(copy) => checked(copy.path()),
        Err(reason) => Outcome::Failed(reason),
    }
}

/// Gives a copy of the workspace with a new backend in it. Outside of the workspace, where git knows nothing of it.
fn made() -> Result<TempDir, String> {
    let in_words = |error: io::Error| format!("no copy of the workspace: {error}");
    let copy = TempDir::new().map_err(in_words)?;
    copy_tree(&workspace_root(), copy.path()).map_err(in_words)?;
    generate(copy.path(), NAME)?;
    format(copy.path(), NAME)?;
    Ok(copy)
}

fn checked(copy: &Path) -> Outcome {
    let target = workspace_root().join("target").join("new-backend");
    let package = ["--package", "comm-echochamber"];
    let clippy = [
        &["clippy", "--all-targets"],
        &package[..],
        &["--", "-D", "warnings"],
    ]
    .concat();
    let test = [&["test"], &package[..]].concat();
    for arguments in [clippy, test] {
        let mut command = cargo(&arguments);
        command.current_dir(copy).env("CARGO_TARGET_DIR", &target);
        println!("{}", shown(&command));
        if run(&mut command) != Outcome::Passed {
            return Outcome::Failed(format!("{} in the copy", shown(&command)));
        }
    }
    tidy::outcome(copy)
}

/// Copies everything but what is built or belongs to git.
fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        if kind.is_dir() {
            let text = name.to_string_lossy();
            if text == ".git" || text.starts_with("target") {
                continue;
            }
            copy_tree(&entry.path(), &to.join(&name))?;
        } else if kind.is_file() {
            fs::copy(entry.path(), to.join(&name))?;
        }
    }
    Ok(())
}
