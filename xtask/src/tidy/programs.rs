//! Keeps the programs in documents equal to the files that are compiled and run.
//!
//! The directive `same-as FILE` stands on the line before a code block.

use super::Finding;
use super::markdown::{Block, Document};
use super::tree::Tree;

/// Finds code blocks that differ from their file, and programs in the README that name none.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.texts(".md")
        .flat_map(|(path, text)| check_document(path, &Document::parse(text), tree))
        .collect()
}

fn check_document(path: &str, document: &Document<'_>, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut compared = Vec::new();
    for directive in document.directives() {
        let ["same-as", file] = directive.words[..] else {
            continue;
        };
        let line = directive.line;
        let block = document
            .blocks
            .iter()
            .find(|block| follows(block, line, document));
        match (block, tree.text(file)) {
            (None, _) => findings.push(Finding::at(
                path,
                line,
                "no code block follows the directive",
            )),
            (_, None) => findings.push(Finding::at(path, line, format!("{file} does not exist"))),
            (Some(block), Some(source)) => findings.extend(difference(path, block, file, source)),
        }
        compared.extend(block.map(|block| block.line));
    }
    if path == "README.md" {
        let programs = document
            .blocks
            .iter()
            .filter(|block| is_program(block) && !compared.contains(&block.line));
        let message = "this program needs a same-as directive: what readers copy must be compiled";
        findings.extend(programs.map(|block| Finding::at(path, block.line, message)));
    }
    findings
}

/// Returns whether only blank lines stand between the line and the block.
fn follows(block: &Block<'_>, line: usize, document: &Document<'_>) -> bool {
    let mut between = document
        .prose
        .iter()
        .filter(|prose| (line + 1..block.line).contains(&prose.line));
    let earlier = document
        .blocks
        .iter()
        .any(|other| (line + 1..block.line).contains(&other.line));
    block.line > line && !earlier && between.all(|prose| prose.text.trim().is_empty())
}

fn is_program(block: &Block<'_>) -> bool {
    block.info.starts_with("rust")
        && block
            .content
            .iter()
            .any(|line| line.starts_with("fn main("))
}

/// Compares line by line; the introduction of a file (its first `//!` lines) is not part of the program.
fn difference(path: &str, block: &Block<'_>, file: &str, source: &str) -> Option<Finding> {
    let source: Vec<&str> = source.lines().collect();
    let (shown, actual) = (body(&block.content), body(&source));
    let skipped = block.content.len() - shown.len();
    let shown = without_blank_end(shown);
    let actual = without_blank_end(actual);
    let longer = shown.len().max(actual.len());
    let at = (0..longer).find(|at| shown.get(*at) != actual.get(*at))?;
    let theirs = actual.get(at).map_or_else(
        || "ends here".to_owned(),
        |line| format!("has `{}`", line.trim()),
    );
    Some(Finding::at(
        path,
        block.line + 1 + skipped + at,
        format!("differs from {file}, which {theirs}"),
    ))
}

fn body<'a, 'b>(lines: &'b [&'a str]) -> &'b [&'a str] {
    let start = lines
        .iter()
        .position(|line| !line.starts_with("//!") && !line.trim().is_empty());
    &lines[start.unwrap_or(lines.len())..]
}

fn without_blank_end<'a, 'b>(lines: &'b [&'a str]) -> &'b [&'a str] {
    let end = lines.iter().rposition(|line| !line.trim().is_empty());
    &lines[..end.map_or(0, |last| last + 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: &str = "//! Shows it.\n\nfn main() {\n    run();\n}\n";

    fn findings(readme: &str) -> Vec<(usize, String)> {
        let findings = check(&Tree::of([
            ("README.md", readme),
            ("examples/a.rs", PROGRAM),
        ]));
        findings
            .into_iter()
            .map(|finding| (finding.line.unwrap(), finding.message))
            .collect()
    }

    #[test]
    fn equal_programs_are_accepted_with_and_without_the_introduction() {
        let directive = "<!-- tidy: same-as examples/a.rs -->";
        assert_eq!(
            findings(&format!("{directive}\n```rust\n{PROGRAM}```\n")),
            []
        );
        assert_eq!(
            findings(&format!(
                "{directive}\n\n```rust\nfn main() {{\n    run();\n}}\n```\n"
            )),
            []
        );
    }

    #[test]
    fn the_first_difference_is_found() {
        let readme =
            "<!-- tidy: same-as examples/a.rs -->\n```rust\nfn main() {\n    walk();\n}\n```\n";
        assert_eq!(
            findings(readme),
            [(
                4,
                "differs from examples/a.rs, which has `run();`".to_owned()
            )]
        );
        let longer = "<!-- tidy: same-as examples/a.rs -->\n```rust\nfn main() {\n    run();\n}\nmore\n```\n";
        assert_eq!(
            findings(longer),
            [(6, "differs from examples/a.rs, which ends here".to_owned())]
        );
        let empty = "<!-- tidy: same-as examples/a.rs -->\n```rust\n```\n";
        assert_eq!(
            findings(empty),
            [(
                3,
                "differs from examples/a.rs, which has `fn main() {`".to_owned()
            )]
        );
    }

    #[test]
    fn a_missing_file_and_a_missing_block_are_found() {
        let readme = "<!-- tidy: same-as examples/b.rs -->\n```rust\n```\n";
        assert_eq!(
            findings(readme),
            [(1, "examples/b.rs does not exist".to_owned())]
        );
        let readme = "<!-- tidy: same-as examples/a.rs -->\ntext\n```rust\n```\n";
        assert_eq!(
            findings(readme),
            [(1, "no code block follows the directive".to_owned())]
        );
    }

    #[test]
    fn a_program_of_the_readme_without_a_file_is_found() {
        let found = findings("# Title\n```rust\nfn main() {}\n```\n```sh\nrun\n```\n");
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, 2);
    }
}
