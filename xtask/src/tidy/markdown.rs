//! Reads Markdown just well enough to tell prose, code blocks and directives apart.
//!
//! A directive is an HTML comment `tidy: VERB ARGUMENT..`. Inside code it is text like any other.

use super::Finding;
use super::tree::Tree;

const OPENING: &str = "<!-- tidy:";
const CLOSING: &str = "-->";

/// Lists the directives; a rule implements each.
const FORMS: [(&str, usize); 4] = [("const", 2), ("files", 2), ("same-as", 1), ("variants", 2)];

/// Finds directives that no rule knows, and code blocks that swallow the rest of their file.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        let document = Document::parse(text);
        for Directive { line, words, .. } in document.directives() {
            let form = words
                .split_first()
                .map(|(verb, arguments)| (*verb, arguments.len()));
            if !form.is_some_and(|form| FORMS.contains(&form)) {
                let message = format!(
                    "no directive has the form `{}`; CONTRIBUTING.md lists them",
                    words.join(" ")
                );
                findings.push(Finding::at(path, line, message));
            }
        }
        let unclosed = document.blocks.iter().filter(|block| !block.closed);
        findings.extend(
            unclosed.map(|block| Finding::at(path, block.line, "this code block is never closed")),
        );
    }
    findings
}

/// Holds the lines of a file, sorted into prose and code blocks.
#[derive(Debug, Default)]
pub(super) struct Document<'a> {
    pub(super) prose: Vec<Prose<'a>>,
    pub(super) blocks: Vec<Block<'a>>,
}

/// Holds a line outside code blocks.
#[derive(Debug)]
pub(super) struct Prose<'a> {
    pub(super) line: usize,
    pub(super) text: &'a str,
    /// The text with code spans blanked out, byte for byte as long.
    pub(super) visible: String,
}

/// Holds a fenced code block.
#[derive(Debug)]
pub(super) struct Block<'a> {
    /// The line of the opening fence.
    pub(super) line: usize,
    /// What follows the fence, such as the language.
    pub(super) info: &'a str,
    pub(super) content: Vec<&'a str>,
    closed: bool,
}

/// Holds a request to tidy.
#[derive(Debug)]
pub(super) struct Directive<'a> {
    pub(super) line: usize,
    /// What the line says before the directive.
    pub(super) before: &'a str,
    /// The verb and its arguments.
    pub(super) words: Vec<&'a str>,
}

impl<'a> Document<'a> {
    pub(super) fn parse(text: &'a str) -> Self {
        let mut document = Self::default();
        let mut open_fence = None;
        for (line, text) in (1..).zip(text.lines()) {
            match (open_fence, fence(text), document.blocks.last_mut()) {
                (Some(opening), closing, Some(block)) => {
                    if closing
                        .is_some_and(|(fence, info)| info.is_empty() && fence.starts_with(opening))
                    {
                        block.closed = true;
                        open_fence = None;
                    } else {
                        block.content.push(text);
                    }
                }
                (_, Some((fence, info)), _) => {
                    document.blocks.push(Block {
                        line,
                        info,
                        content: Vec::new(),
                        closed: false,
                    });
                    open_fence = Some(fence);
                }
                _ => document.prose.push(Prose {
                    line,
                    text,
                    visible: without_code_spans(text),
                }),
            }
        }
        document
    }

    pub(super) fn directives(&self) -> impl Iterator<Item = Directive<'a>> {
        self.prose.iter().flat_map(|prose| {
            prose.visible.match_indices(OPENING).map(|(at, _)| {
                let (before, directive) = prose.text.split_at(at);
                let inside = directive[OPENING.len()..]
                    .split_once(CLOSING)
                    .map_or("", |(inside, _)| inside);
                Directive {
                    line: prose.line,
                    before,
                    words: inside.split_whitespace().collect(),
                }
            })
        })
    }
}

/// Splits a line that opens or closes a code block into the fence and what follows.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|c| "`~".contains(*c))?;
    let length = line.chars().take_while(|c| *c == mark).count();
    let (fence, info) = line.split_at(length);
    (length >= 3 && !info.contains('`')).then_some((fence, info.trim()))
}

fn without_code_spans(line: &str) -> String {
    let mut visible = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find('`') {
        let ticks = rest[start..].len() - rest[start..].trim_start_matches('`').len();
        let inside = start + ticks;
        let Some(end) = rest[inside..].find(&rest[start..inside]) else {
            break;
        };
        visible.push_str(&rest[..start]);
        visible.push_str(&" ".repeat(end + 2 * ticks));
        rest = &rest[inside + end + ticks..];
    }
    visible + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<Option<usize>> {
        check(&Tree::of([("a.md", text)]))
            .into_iter()
            .map(|finding| finding.line)
            .collect()
    }

    #[test]
    fn known_directives_and_other_comments_are_fine() {
        let text =
            "5 <!-- tidy: const a.rs A -->\n<!-- tidy: same-as a.rs -->\n<!-- a remark -->\n";
        assert!(lines(text).is_empty());
    }

    #[test]
    fn unknown_and_malformed_directives_are_found() {
        for text in [
            "<!-- tidy: constant a.rs A -->",
            "<!-- tidy: const a.rs -->",
            "<!-- tidy: -->",
            "<!-- tidy: files src",
        ] {
            assert_eq!(lines(&format!("\n{text}\n")), [Some(2)], "{text}");
        }
    }

    #[test]
    fn directives_inside_code_are_text() {
        assert!(
            lines("`<!-- tidy: nonsense -->`\n```text\n<!-- tidy: nonsense -->\n```\n").is_empty()
        );
    }

    #[test]
    fn a_block_that_is_never_closed_is_found() {
        assert_eq!(lines("one\n```rust\ntwo\n"), [Some(2)]);
        assert_eq!(lines("````\n```\n"), [Some(1)]);
    }

    #[test]
    fn blanked_code_spans_keep_their_length() {
        assert_eq!(without_code_spans("a `b` c"), "a     c");
        assert_eq!(
            without_code_spans("``a`b`` c `d"),
            format!("{} c `d", " ".repeat(7))
        );
    }
}
