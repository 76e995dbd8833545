//! Keeps the table of contents of the book complete: a document that it does not list is not in the book.

use super::links::linked;
use super::markdown::line;
use super::{OnFinding, Tree};

/// The table of contents; its links are relative to its own folder.
pub(crate) const CONTENTS: &str = "docs/SUMMARY.md";

/// Finds documents that the contents do not list, and links of chapters that a book cannot follow.
pub(super) fn check(tree: &Tree, report: &mut OnFinding<'_>) {
    let Some(contents) = tree.0.get(CONTENTS) else {
        return;
    };
    let chapters: Vec<String> = linked(CONTENTS, contents).map(|(_, path)| path).collect();
    for (path, _) in tree.texts(".md") {
        let listed = path == CONTENTS || chapters.iter().any(|chapter| chapter == path);
        if path.starts_with("docs/") && !listed {
            report(path, 1, format!("{CONTENTS} does not list it"));
        }
    }
    for chapter in &chapters {
        let Some(text) = tree.0.get(chapter) else {
            continue;
        };
        for (at, path) in linked(chapter, text) {
            let page = tree.texts(".md").any(|(page, _)| page == path);
            if page && !chapters.contains(&path) {
                let message = format!("{path} is linked here, but {CONTENTS} does not list it");
                report(chapter, line(text, at), message);
            } else if !tree.0.contains_key(&path) && tree.contains(&path) {
                let message =
                    format!("{path} is a directory, and the book has none: link to a file in it");
                report(chapter, line(text, at), message);
            }
        }
    }
}

/// Lists the files of the book: the chapters and the files they link to.
pub(super) fn files(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.0.get(path).map_or("", String::as_str);
    let chapters = linked(CONTENTS, text(CONTENTS)).map(|(_, path)| path);
    let mut files: Vec<String> = chapters.collect();
    let others: Vec<String> = files
        .iter()
        .flat_map(|chapter| linked(chapter, text(chapter)))
        .map(|(_, path)| path)
        .collect();
    files.extend(others);
    files.sort();
    files.dedup();
    files
}
