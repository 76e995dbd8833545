//! Keeps source files small enough to read in one sitting.

use super::Finding;
use super::tree::Tree;

const MOST_LINES: usize = 500;

/// Finds Rust files of more than [`MOST_LINES`] lines.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let sizes = tree
        .texts(".rs")
        .map(|(path, text)| (path, text.lines().count()));
    let large = sizes.filter(|(_, lines)| *lines > MOST_LINES);
    large
        .map(|(path, lines)| {
            Finding::at(
                path,
                lines,
                format!("{lines} lines: split it before {MOST_LINES}"),
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_itself_is_fine_and_one_more_is_not() {
        let (fits, large) = ("\n".repeat(MOST_LINES), "\n".repeat(MOST_LINES + 1));
        let findings = check(&Tree::of([
            ("a.rs", &fits),
            ("b.rs", &large),
            ("c.md", &large),
        ]));
        assert_eq!(
            findings,
            [Finding::at("b.rs", 501, "501 lines: split it before 500")]
        );
    }
}
