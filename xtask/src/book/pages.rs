//! Checks the links of HTML pages.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use crate::tidy::resolve;

/// Pages that mdbook adds: the whole book on one page for printing, with the links of the other pages; and the page that a server shows
/// for a missing page, at any address.
const ADDED: [&str; 2] = ["print.html", "404.html"];

/// Lists the broken links of the pages below a folder, pictures and headings included.
pub(super) fn broken(folder: &Path) -> io::Result<Vec<String>> {
    let mut files = BTreeMap::new();
    read(folder, "", &mut files)?;
    Ok(check(&files))
}

/// Reads the pages; other files only count as targets of links.
fn read(folder: &Path, below: &str, files: &mut BTreeMap<String, String>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            read(&entry.path(), &format!("{name}/"), files)?;
        } else if Path::new(&name)
            .extension()
            .is_some_and(|end| end == "html")
            && !ADDED.contains(&&*name)
        {
            files.insert(name, fs::read_to_string(entry.path())?);
        } else {
            files.insert(name, String::new());
        }
    }
    Ok(())
}

fn check(files: &BTreeMap<String, String>) -> Vec<String> {
    let mut broken = Vec::new();
    for (page, text) in files {
        for link in ["href=\"", "src=\""]
            .iter()
            .flat_map(|name| values(text, name))
        {
            if link.contains(':') || link.starts_with("//") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = resolve(page, file).and_then(|path| files.get(&path));
            let found = target.is_some_and(|target| {
                heading.is_empty() || values(target, "id=\"").any(|id| id == heading)
            });
            if !found {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    broken
}

/// Lists the values of an attribute.
fn values<'a>(text: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    let values = text.split(attribute).skip(1);
    values.filter_map(|rest| rest.split_once('"').map(|(value, _)| value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_that_lead_nowhere_are_named() {
        let page = r##"<h2 id="here"></h2><a href="#here"></a><a href="#gone"></a><img src="../picture.svg">
            <a href="https://example.org/"></a><a href="two.html#there">x</a><a href="two.html#away">x</a><img src="no.svg">"##;
        let files = [
            ("a/one.html", page),
            ("a/two.html", r#"<h2 id="there">"#),
            ("picture.svg", ""),
        ];
        let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let expected =
            ["#gone", "two.html#away", "no.svg"].map(|link| format!("a/one.html: {link}"));
        assert_eq!(check(&files.into()), expected);
    }
}
