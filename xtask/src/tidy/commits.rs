//! Keeps the subjects of commits short enough for the lists that show them.

use std::path::Path;
use std::process::Command;

use crate::report::Outcome;

const MOST_CHARACTERS: usize = 72;

/// The rule applies to the commits after the one that added this file.
const SINCE: &str = "xtask/src/tidy/commits.rs";

/// Checks the subjects of the commits below `root` and prints those that are too long.
pub(crate) fn outcome(root: &Path) -> Outcome {
    let commits = match log(root) {
        Ok(commits) => commits,
        Err(reason) => return Outcome::NotRun(reason),
    };
    let findings = too_long(&commits);
    for finding in &findings {
        println!("{finding}");
    }
    if findings.is_empty() {
        Outcome::Passed
    } else {
        let plural = if findings.len() == 1 { "" } else { "s" };
        let count = findings.len();
        Outcome::Failed(format!(
            "{count} subject{plural} of more than {MOST_CHARACTERS} characters"
        ))
    }
}

/// Lists the commits that the rule applies to: hash and subject, one per line.
fn log(root: &Path) -> Result<String, String> {
    if !root.join(".git").exists() {
        return Err("there is no history here: check the repository out with git".to_owned());
    }
    if git(root, &["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        return Err("the history is shallow: run git fetch --unshallow".to_owned());
    }
    let added = git(
        root,
        &["log", "--diff-filter=A", "--format=%H", "--", SINCE],
    )?;
    let Some(first) = added.lines().last() else {
        return Err(format!("no commit adds {SINCE}"));
    };
    let range = format!("{first}..HEAD");
    git(root, &["log", "--no-merges", "--format=%h %s", &range])
}

/// Runs git, even in a checkout of another user, as in CI.
fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*"]).args(arguments);
    let output = git.current_dir(root).output();
    let output = output.map_err(|error| format!("git: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        let reason = String::from_utf8_lossy(&output.stderr);
        Err(format!("git: {}", reason.trim()))
    }
}

/// Lists the commits of a log with a subject that is too long.
pub(super) fn too_long(commits: &str) -> Vec<String> {
    let commits = commits.lines().filter_map(|line| line.split_once(' '));
    let measured = commits.map(|(hash, subject)| (hash, subject, subject.chars().count()));
    let found = measured.filter(|(_, _, length)| *length > MOST_CHARACTERS);
    found
        .map(|(hash, subject, length)| format!("commit {hash}: {length} characters: {subject}"))
        .collect()
}
