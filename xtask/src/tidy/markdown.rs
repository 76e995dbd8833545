//! Parses the parts of a Markdown document that the rules need.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The parts of a document, with their byte offsets.
#[derive(Default)]
pub(super) struct Document {
    /// The targets of links and images.
    pub(super) links: Vec<(usize, String)>,
    /// The names that links use for the headings.
    pub(super) anchors: Vec<String>,
    /// The HTML; a comment is one part.
    pub(super) html: Vec<(usize, String)>,
    /// The fenced code blocks without an end.
    pub(super) unclosed: Vec<usize>,
    /// The tables and the code blocks, whose lines cannot be broken.
    pub(super) wide: Vec<Range<usize>>,
}

impl Document {
    pub(super) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut words = String::new();
        let extensions = Options::ENABLE_TABLES | Options::ENABLE_FOOTNOTES;
        for (event, place) in Parser::new_ext(text, extensions).into_offset_iter() {
            if let Event::Start(Tag::Table(_) | Tag::CodeBlock(_)) = event {
                document.wide.push(whole_lines(text, &place));
            }
            match event {
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push((place.start, dest_url.to_string()));
                }
                Event::Start(Tag::Heading { .. }) => words.clear(),
                Event::Text(more) | Event::Code(more) => words.push_str(&more),
                Event::End(TagEnd::Heading(_)) => document.add_heading(&words),
                Event::Html(html) | Event::InlineHtml(html) => {
                    document.html.push((place.start, html.to_string()));
                }
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_)))
                    if !is_closed(&text[place.clone()]) =>
                {
                    document.unclosed.push(place.start);
                }
                _ => {}
            }
        }
        document
    }

    /// Adds the anchor of a heading: lower case, no punctuation, dashes for spaces, numbered when it repeats.
    fn add_heading(&mut self, heading: &str) {
        let kept = |c: &char| c.is_alphanumeric() || " -_".contains(*c);
        let letters = heading.chars().filter(kept).flat_map(char::to_lowercase);
        let anchor: String = letters.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let mut names = std::iter::once(anchor.clone()).chain(numbered);
        let free = names.find(|name| !self.anchors.contains(name));
        self.anchors.extend(free);
    }
}

/// Extends a block to the beginning of its first line, because a block in a list is indented.
fn whole_lines(text: &str, place: &Range<usize>) -> Range<usize> {
    let start = text[..place.start].rfind('\n').map_or(0, |end| end + 1);
    start..place.end
}

/// Returns whether a fenced block ends with the fence that it begins with.
fn is_closed(block: &str) -> bool {
    let mark = if block.starts_with('~') { '~' } else { '`' };
    let fence = block.len() - block.trim_start_matches(mark).len();
    let last = block.trim_end().lines().skip(1).last();
    last.is_some_and(|last| last.ends_with(&block[..fence]))
}

/// Returns the number of the line, counted from 1, with the byte at `offset`.
pub(super) fn line(text: &str, offset: usize) -> usize {
    text[..offset].matches('\n').count() + 1
}
