//! Keeps prose readable: lines that are short enough for a diff, and no awkward phrases.

use super::markdown::{Document, line};
use super::{OnFinding, Tree};

/// The longest line of a document, in characters.
const MOST_CHARACTERS: usize = 200;

/// The folders whose code is checked too: rustdoc, docstrings, comments and string literals.
#[rustfmt::skip] // One folder per line.
const CLEAN: &[&str] = &[
    "comm-api",
    "comm-exact",
    "comm-factory",
    "comm-kit",
    "comm-local",
    "comm-mpi",
    "comm-python",
    "comm-run",
    "comm-shm",
    "comm-tcp",
    "comm-testing",
    "compat",
    "conformance",
    "examples",
    "fixtures",
    "xtask",
];

/// The phrases that appear nowhere, word by word; split, so that this file has none of them.
const PHRASES: [&[&str]; 7] = [
    &["for", "ever"],
    &[concat!("who", "ever")],
    &["is", "said"],
    &["is", "told"],
    &["are", "told"],
    &["comes", "to", "a", "call"],
    &["come", "to", "a", "call"],
];

/// Finds lines of documents that are too long for a diff, except in tables and code, which cannot be broken.
pub(super) fn lines(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts(".md") {
        let wide = Document::parse(text).wide;
        let mut start = 0;
        for (number, line) in (1..).zip(text.split_inclusive('\n')) {
            let length = line.trim_end().chars().count();
            if length > MOST_CHARACTERS && !wide.iter().any(|block| block.contains(&start)) {
                let message = format!(
                    "{length} characters: one sentence per line, {MOST_CHARACTERS} at most"
                );
                report(path, number, message);
            }
            start += line.len();
        }
    }
}

/// Finds the [`PHRASES`] in documents, and in the code below the [`CLEAN`] folders.
pub(super) fn phrases(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts(".md").chain(code(tree, CLEAN)) {
        find(path, text, report);
    }
}

/// Lists the Rust and Python files below the given folders.
pub(super) fn code<'a>(
    tree: &'a Tree,
    folders: &'a [&str],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let below = |path: &str| {
        let mut folders = folders.iter();
        folders.any(|folder| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with('/'))
        })
    };
    let endings = [".rs", ".py", ".pyi"].into_iter();
    let files = endings.flat_map(|ending| tree.texts(ending));
    files.filter(move |(path, _)| below(path))
}

/// Finds the [`PHRASES`] in one text, including those that continue in the next line or comment.
pub(super) fn find(path: &str, text: &str, report: &mut OnFinding<'_>) {
    let words = words(text);
    for from in 0..words.len() {
        let at = &words[from..];
        for phrase in PHRASES
            .iter()
            .filter(|phrase| starts_with(at, phrase, text))
        {
            report(
                path,
                line(text, at[0].0),
                format!("say '{}' in other words", phrase.join(" ")),
            );
        }
    }
}

/// Lists the words of a text, each with its byte offset. An identifier is one word.
fn words(text: &str) -> Vec<(usize, &str)> {
    let outside = |c: char| !c.is_alphanumeric() && c != '_';
    let parts = text.split_inclusive(outside).scan(0, |next, part| {
        let at = *next;
        *next += part.len();
        Some((at, part.trim_end_matches(outside)))
    });
    parts.filter(|(_, word)| !word.is_empty()).collect()
}

/// Returns whether the words begin with the phrase, with only space and comment marks in between.
fn starts_with(words: &[(usize, &str)], phrase: &[&str], text: &str) -> bool {
    let alike = |(word, part): (&(usize, &str), &&str)| word.1.eq_ignore_ascii_case(part);
    let found = words.len() >= phrase.len() && words.iter().zip(phrase).all(alike);
    let between = |pair: &[(usize, &str)]| &text[pair[0].0 + pair[0].1.len()..pair[1].0];
    let gap = |c: char| c.is_whitespace() || "/!#*>\\".contains(c);
    found
        && words[..phrase.len()]
            .windows(2)
            .all(|pair| between(pair).chars().all(gap))
}
