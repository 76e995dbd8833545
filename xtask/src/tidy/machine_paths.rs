//! Keeps the paths of somebody's machine out of the repository.

use super::Finding;
use super::tree::Tree;

/// Names the top directories that differ from machine to machine; without their slashes, so that this file is clean.
const PRIVATE: [&str; 5] = ["Users", "farm", "home", "root", "work"];

/// Finds absolute paths below one of the [`PRIVATE`] directories.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts("") {
        for (number, line) in (1..).zip(text.lines()) {
            if let Some(top) = PRIVATE.iter().find(|top| names(line, top)) {
                findings.push(Finding::at(
                    path,
                    number,
                    format!("a path below /{top} exists on one machine only"),
                ));
            }
        }
    }
    findings
}

/// Returns whether `line` has `/top/` where a path starts, not in the middle of a longer one.
fn names(line: &str, top: &str) -> bool {
    let pattern = format!("/{top}/");
    line.match_indices(&pattern).any(|(start, _)| {
        let before = line[..start].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "._-~*{}$)]".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_private_directory_is_found_with_its_line() {
        for top in PRIVATE {
            let text = format!("fine\nsee `/{top}/notes`\n");
            let findings = check(&Tree::of([("README.md", &text)]));
            assert_eq!(findings.len(), 1, "{top}");
            assert_eq!(findings[0].line, Some(2));
        }
    }

    #[test]
    fn paths_inside_the_repository_and_addresses_are_fine() {
        for before in ["docs", "./a", "example.org", "$HOME", "${DIR}", ".."] {
            let text = format!("{before}/{}/x", "work");
            assert!(check(&Tree::of([("a.md", &text)])).is_empty(), "{text}");
        }
    }
}
