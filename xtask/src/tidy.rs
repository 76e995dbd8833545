//! Checks what neither the compiler nor clippy checks: names and sizes of files; links, numbers, lines and phrases in documents.
//!
//! Each rule works on the tree in memory, and reports the file, the line and the problem. The subjects of
//! commits are checked separately, see [`commits`].

use std::path::Path;

use crate::report::Outcome;

mod book;
pub(crate) mod commits;
mod files;
mod links;
mod markdown;
mod numbers;
#[cfg(test)]
mod tests;
mod tree;
mod words;

pub(crate) use book::CONTENTS;
pub(crate) use links::resolve;
use tree::Tree;

/// Takes a path, a line counted from 1, and a message.
type OnFinding<'a> = dyn FnMut(&str, usize, String) + 'a;
type Check = fn(&Tree, &mut OnFinding<'_>);

const CHECKS: [Check; 8] = [
    book::check,
    files::layout,
    files::private_paths,
    files::size,
    links::check,
    numbers::check,
    words::lines,
    words::phrases,
];

/// Checks the tree below `root` and its commits, prints the findings, and returns whether there are none.
pub(crate) fn run(root: &Path) -> bool {
    let commits = shown("commits", &commits::outcome(root));
    shown("tidy", &outcome(root)) && commits
}

/// Prints why a check failed or did not run; returns whether it did not fail.
fn shown(name: &str, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Passed => {}
        Outcome::NotRun(reason) => println!("{name}: NOT RUN: {reason}"),
        Outcome::Failed(reason) => eprintln!("{name}: {reason}"),
    }
    !matches!(outcome, Outcome::Failed(_))
}

/// Checks the tree below `root` and prints the findings.
pub(crate) fn outcome(root: &Path) -> Outcome {
    let tree = match Tree::load(root) {
        Ok(tree) => tree,
        Err(reason) => return Outcome::Failed(reason.to_string()),
    };
    let findings = findings(&tree, &CHECKS);
    for finding in &findings {
        println!("{finding}");
    }
    let plural = if findings.len() == 1 { "" } else { "s" };
    let found = format!("{} finding{plural}", findings.len());
    println!("tidy: {} files, {found}", tree.0.len());
    if findings.is_empty() {
        Outcome::Passed
    } else {
        Outcome::Failed(found)
    }
}

/// Lists the files of the book below `root`: the chapters, and the files they link to.
pub(crate) fn book_files(root: &Path) -> Result<Vec<String>, String> {
    let tree = Tree::load(root).map_err(|error| error.to_string())?;
    Ok(book::files(&tree))
}

/// Lists the findings of all checks, in the order of paths and lines.
fn findings(tree: &Tree, checks: &[Check]) -> Vec<String> {
    let mut findings = Vec::new();
    for check in checks {
        check(tree, &mut |path, line, message| {
            findings.push((path.to_owned(), line, message));
        });
    }
    findings.sort();
    let shown = |(path, line, message)| format!("{path}:{line}: {message}");
    findings.into_iter().map(shown).collect()
}
