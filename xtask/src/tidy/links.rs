//! Keeps the links between documents alive.

use super::Finding;
use super::markdown::Document;
use super::tree::Tree;

/// Finds relative links whose file or heading does not exist. Addresses of other sites are not visited.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts(".md") {
        for prose in Document::parse(text).prose {
            let broken = targets(&prose.visible)
                .into_iter()
                .filter_map(|target| problem(path, target, tree));
            findings.extend(broken.map(|message| Finding::at(path, prose.line, message)));
        }
    }
    findings
}

/// Lists the targets of `[text](target)` and `[name]: target` in a line.
fn targets(line: &str) -> Vec<&str> {
    let inline = line
        .match_indices("](")
        .map(|(at, opening)| &line[at + opening.len()..]);
    let defined = line
        .trim_start()
        .strip_prefix('[')
        .filter(|name| !name.starts_with('^'));
    let defined = defined
        .and_then(|rest| rest.split_once("]:"))
        .map(|(_, target)| target.trim_start());
    inline
        .chain(defined)
        .map(target)
        .filter(|target| !target.is_empty())
        .collect()
}

/// Cuts a target off at its end: the bracket that closes it or the space before a title.
fn target(text: &str) -> &str {
    if let Some(inside) = text.strip_prefix('<') {
        return inside.split('>').next().unwrap_or(inside);
    }
    let mut depth = 0;
    let end = text.find(|c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth < 0 || c.is_whitespace()
    });
    &text[..end.unwrap_or(text.len())]
}

fn problem(from: &str, target: &str, tree: &Tree) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = target.split_once('#').unwrap_or((target, ""));
    let Some(path) = resolve(from, &file.replace("%20", " ")) else {
        return Some(format!("the link {target} leaves the repository"));
    };
    if !tree.contains(&path) {
        return Some(format!("the link {target} leads nowhere"));
    }
    let mut documents = tree.texts(".md").filter(|(document, _)| *document == path);
    let known = documents.all(|(_, text)| heading.is_empty() || has_heading(text, heading));
    (!known).then(|| format!("the link {target} names a heading that does not exist"))
}

/// Resolves a link against the file it stands in; none if it leads above the root.
fn resolve(from: &str, link: &str) -> Option<String> {
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

fn has_heading(text: &str, wanted: &str) -> bool {
    let document = Document::parse(text);
    let mut seen: Vec<String> = Vec::new();
    let explicit = [format!("id=\"{wanted}\""), format!("name=\"{wanted}\"")];
    document.prose.iter().any(|prose| {
        let anchor = prose
            .text
            .starts_with('#')
            .then(|| anchor(prose.text.trim_start_matches('#').trim()));
        let found = anchor.is_some_and(|anchor| {
            let repeated = seen.iter().filter(|earlier| **earlier == anchor).count();
            let full = if repeated == 0 {
                anchor.clone()
            } else {
                format!("{anchor}-{repeated}")
            };
            seen.push(anchor);
            full == wanted
        });
        found || explicit.iter().any(|anchor| prose.text.contains(anchor))
    })
}

/// Turns a heading into the name that links use for it: lower case, no punctuation, dashes for spaces.
fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(text: &str) -> Vec<String> {
        let tree = Tree::of([
            ("README.md", "# One `two`\n\n## Same\n\n## Same\n"),
            ("docs/a.md", text),
            ("docs/b (1).txt", ""),
        ]);
        check(&tree)
            .into_iter()
            .map(|finding| finding.message)
            .collect()
    }

    #[test]
    fn links_that_resolve_are_accepted() {
        let good = [
            "[x](../README.md) and [y](a.md \"title\")",
            "[x](../README.md#one-two) [y](../README.md#same-1)",
            "# Here\n[x](#here)",
            "[x](b%20(1).txt) [y](<b (1).txt>)",
            "[dir](../docs) [root](/README.md) ![i](./a.md)",
            "[web](https://example.org/none) [mail](mailto:a@example.org)",
            "`[code](none.md)`\n```\n[code](none.md)\n```",
            "[^1]: a footnote",
        ];
        for text in good {
            assert_eq!(messages(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn links_that_do_not_resolve_are_found() {
        let bad = [
            ("[x](none.md)", "the link none.md leads nowhere"),
            ("[x](README.md)", "the link README.md leads nowhere"),
            ("[x]: none.md", "the link none.md leads nowhere"),
            (
                "[x](../../README.md)",
                "the link ../../README.md leaves the repository",
            ),
            (
                "[x](../README.md#three)",
                "the link ../README.md#three names a heading that does not exist",
            ),
            (
                "[x](../README.md#same-2)",
                "the link ../README.md#same-2 names a heading that does not exist",
            ),
        ];
        for (text, message) in bad {
            assert_eq!(messages(text), [message], "{text}");
        }
    }
}
