//! Keeps a reason above every use of `unsafe`.
//!
//! Clippy does the same for the code that one build compiles; this rule reads all of it, other platforms and macros
//! included.

use super::tree::Tree;
use super::{Finding, source};

/// Finds `unsafe` blocks and implementations without a `SAFETY:` comment directly above their statement.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts(".rs")
        .flat_map(|(path, text)| check_file(path, text))
        .collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let code = source::code(text);
    let code: Vec<&str> = code.lines().collect();
    let text: Vec<&str> = text.lines().collect();
    let mut findings = Vec::new();
    for line in 0..code.len() {
        for what in uses(&code, line) {
            if !is_explained(&text, &code, line) {
                let message = format!("unsafe {what} without a SAFETY comment directly above");
                findings.push(Finding::at(path, line + 1, message));
            }
        }
    }
    findings
}

/// Lists the uses of `unsafe` that start in a line.
fn uses(code: &[&str], line: usize) -> Vec<&'static str> {
    let word = "unsafe";
    let starts = code[line].match_indices(word).filter(|(at, _)| {
        let before = code[line][..*at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    });
    let what = starts.filter_map(|(at, _)| {
        let same_line = code[line][at + word.len()..].trim_start();
        let next_lines = code[line + 1..].iter().map(|line| line.trim_start());
        let after = std::iter::once(same_line)
            .chain(next_lines)
            .find(|rest| !rest.is_empty())?;
        let implementation = after
            .strip_prefix("impl")
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric));
        match () {
            () if after.starts_with('{') => Some("block"),
            () if implementation => Some("impl"),
            () => None,
        }
    });
    what.collect()
}

/// Looks for a reason in the line itself, then upwards past attributes and the earlier lines of the same statement.
fn is_explained(text: &[&str], code: &[&str], line: usize) -> bool {
    let mut comment = Vec::new();
    for above in (0..line).rev() {
        let (written, rest) = (text[above].trim(), code[above].trim());
        if rest.is_empty() && !written.is_empty() {
            comment.push(written);
        } else if !comment.is_empty() || !(rest.starts_with("#[") || is_continued(rest)) {
            break;
        }
    }
    comment.reverse();
    gives_reason(&comment.join(" ")) || gives_reason(comment_before(text[line], code[line]))
}

/// Returns the part of a line before `unsafe`, where a short comment may stand.
fn comment_before<'a>(text: &'a str, code: &str) -> &'a str {
    let characters = code
        .find("unsafe")
        .map_or(0, |at| code[..at].chars().count());
    let end = text
        .char_indices()
        .nth(characters)
        .map_or(text.len(), |(at, _)| at);
    &text[..end]
}

fn is_continued(code: &str) -> bool {
    !code.is_empty() && !code.ends_with([';', '{', '}', ','])
}

fn gives_reason(comment: &str) -> bool {
    let reason = comment.split_once("SAFETY:").map(|(_, reason)| reason);
    reason.is_some_and(|reason| reason.contains(char::is_alphabetic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        check_file("a.rs", text)
            .into_iter()
            .filter_map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn a_reason_directly_above_is_accepted() {
        let good = [
            "// SAFETY: I1: checked above.\nunsafe { f() }",
            "// SAFETY:\n// I1: checked above.\nlet x = unsafe { f() };",
            "// SAFETY: I1.\nlet x: Long =\n    unsafe { f() };",
            "// SAFETY: I1.\n#[cfg(unix)]\nunsafe impl Send for A {}",
            "let x = /* SAFETY: I1 */ unsafe { f() };",
            "/* SAFETY: I1. */\nunsafe\n{ f() }",
        ];
        for text in good {
            assert!(lines(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_missing_reason_is_found() {
        let bad = [
            ("let a = 1;\nunsafe { f() }", 2),
            ("unsafe impl Sync for A {}", 1),
            (
                "// SAFETY: I1.\nunsafe impl Send for A {}\nunsafe impl Sync for A {}",
                3,
            ),
            ("// SAFETY: I1.\n\nunsafe { f() }", 3),
            ("// SAFETY: I1.\nlet a = 1;\nunsafe { f() }", 3),
            ("// SAFETY:\nunsafe { f() }", 2),
            ("// It is fine.\nunsafe { f() }", 2),
            ("unsafe { f() } // SAFETY: too late", 1),
            ("let s = \"// SAFETY: I1\";\nunsafe { f() }", 2),
            ("macro_rules! m { () => {\n    unsafe { f() }\n} }", 2),
        ];
        for (text, line) in bad {
            assert_eq!(lines(text), [line], "{text}");
        }
    }

    #[test]
    fn other_uses_of_the_word_are_left_alone() {
        for text in [
            "unsafe fn f() {}",
            "unsafe trait T {}",
            "#[unsafe(no_mangle)]",
            "// unsafe {",
            "\"unsafe {\"",
            "not_unsafe {",
        ] {
            assert!(lines(text).is_empty(), "{text}");
        }
    }
}
