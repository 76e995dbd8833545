//! Keeps the links between documents alive.

use super::markdown::{Document, line};
use super::{OnFinding, Tree};

/// Finds relative links to files or headings that do not exist, and code blocks that are never closed.
/// Does not visit addresses of other sites.
pub(super) fn check(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts(".md") {
        let document = Document::parse(text);
        for (at, target) in document.links {
            if let Some(problem) = problem(path, &target, tree) {
                report(path, line(text, at), format!("the link {target} {problem}"));
            }
        }
        for at in document.unclosed {
            let message = "this code block is never closed".to_owned();
            report(path, line(text, at), message);
        }
    }
}

fn problem(from: &str, target: &str, tree: &Tree) -> Option<&'static str> {
    if is_elsewhere(target) {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, &file.replace("%20", " ")) else {
        return Some("leaves the repository");
    };
    if !tree.contains(&path) {
        return Some("leads nowhere");
    }
    let (_, text) = tree.texts(".md").find(|(document, _)| *document == path)?;
    let mut anchors = Document::parse(text).anchors.into_iter();
    let known = heading.is_empty() || anchors.any(|anchor| anchor == heading);
    (!known).then_some("names a heading that does not exist")
}

/// Lists the files and directories of the repository that a document links to, with the byte offsets of the links.
pub(super) fn linked(from: &str, text: &str) -> impl Iterator<Item = (usize, String)> {
    let links = Document::parse(text).links.into_iter();
    links.filter_map(move |(at, target)| {
        let path = target.split('#').next().unwrap_or_default();
        let local = !is_elsewhere(&target) && !path.is_empty();
        let path = local.then(|| resolve(from, &path.replace("%20", " ")))??;
        Some((at, path))
    })
}

/// Returns whether an address belongs to another site.
fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// Resolves a link relative to the file that contains it; `None` if it leads above the root.
pub(crate) fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    let directory = from.rsplit_once('/').map_or("", |(directory, _)| directory);
    let start = if link.starts_with('/') { "" } else { directory };
    let mut parts = Vec::new();
    for part in start.split('/').chain(link.split('/')) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop()?,
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}
