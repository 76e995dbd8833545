//! Builds the book of the documents.
//!
//! The documents link to each other, to the READMEs of the crates and to sources, with relative paths. So the book is built from a copy
//! of just these files, each in its place, and every link works there as it does in the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{Terminal, command, workspace_root};
use crate::report::Outcome;
use crate::tidy;
use crate::tools::MDBOOK;

mod pages;

/// The files that mdbook reads in addition to the pages.
const SETTINGS: [&str; 2] = ["docs/book.toml", "docs/book.css"];

/// The name of the step.
pub(crate) const WHAT: &str = "cargo xtask book";

/// What to do with the book.
#[derive(Debug, clap::Args)]
pub(crate) struct Book {
    /// Show it in the browser
    #[arg(long)]
    open: bool,
    /// First install mdbook with cargo, unless it exists; takes minutes
    #[arg(long)]
    install: bool,
}

/// Builds and checks the book; returns whether there are no findings.
pub(crate) fn run(arguments: &Book) -> bool {
    let ready = if arguments.install {
        MDBOOK.obtain_by_cargo()
    } else {
        let advice = MDBOOK.missing();
        advice.map_or(Ok(()), |advice| Err(format!("{advice}, or use --install")))
    };
    if let Err(advice) = ready {
        eprintln!("error: {advice}");
        return false;
    }
    match outcome(&Terminal::default()) {
        Outcome::Passed => {
            println!("book: target/book/index.html");
            if arguments.open {
                // The user sees whether the browser opens.
                let _ = Command::new("xdg-open")
                    .arg(pages_folder().join("index.html"))
                    .status();
            }
            true
        }
        Outcome::Failed(reason) | Outcome::NotRun(reason) => {
            eprintln!("error: {reason}");
            false
        }
    }
}

/// Builds the book and checks the links of its pages.
pub(crate) fn outcome(terminal: &Terminal) -> Outcome {
    let root = workspace_root();
    let sources = root.join("target/book-sources");
    if let Err(reason) = assemble(&root, &sources) {
        return Outcome::Failed(reason);
    }
    let pages = pages_folder();
    let (from, to) = (sources.display().to_string(), pages.display().to_string());
    let mut build = command("mdbook", &["build", &from, "--dest-dir", &to]);
    match terminal.run(&mut build) {
        Outcome::Passed => {}
        failed => return failed,
    }
    match pages::broken(&pages) {
        Ok(found) if found.is_empty() => Outcome::Passed,
        Ok(found) => {
            for line in &found {
                println!("{line}");
            }
            Outcome::Failed(format!("{} links lead nowhere", found.len()))
        }
        Err(error) => Outcome::Failed(format!("{to}: {error}")),
    }
}

fn pages_folder() -> PathBuf {
    workspace_root().join("target/book")
}

/// Copies the files of the book. The links of the contents start at their own folder, so they are rewritten to start at the root.
fn assemble(root: &Path, to: &Path) -> Result<(), String> {
    let in_words = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    if to.exists() {
        fs::remove_dir_all(to).map_err(|error| in_words(to, error))?;
    }
    let copy = |file: &str, to: PathBuf| {
        let folder = to.parent().unwrap_or(&to);
        let copied = fs::create_dir_all(folder).and_then(|()| fs::copy(root.join(file), &to));
        copied.map_err(|error| in_words(&root.join(file), error))
    };
    for file in tidy::book_files(root)? {
        copy(&file, to.join("src").join(&file))?;
    }
    for file in SETTINGS {
        let name = Path::new(file).file_name().unwrap_or_default();
        copy(file, to.join(name))?;
    }
    let contents = root.join(tidy::CONTENTS);
    let text = fs::read_to_string(&contents).map_err(|error| in_words(&contents, error))?;
    let contents = to.join("src/SUMMARY.md");
    fs::write(&contents, from_root(&text)).map_err(|error| in_words(&contents, error))
}

/// Rewrites the links of the contents.
fn from_root(contents: &str) -> String {
    let mut parts = contents.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("](");
        match part.split_once(')') {
            Some((link, rest)) => {
                let path = tidy::resolve(tidy::CONTENTS, link);
                text.push_str(path.as_deref().unwrap_or(link));
                text.push(')');
                text.push_str(rest);
            }
            None => text.push_str(part),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_contents_lead_from_the_root() {
        let contents =
            "# Book\n\n[First](../README.md)\n\n- [One](guides/one.md)\n  - [Two](../a/b.md)\n";
        let expected =
            "# Book\n\n[First](README.md)\n\n- [One](docs/guides/one.md)\n  - [Two](a/b.md)\n";
        assert_eq!(from_root(contents), expected);
    }

    #[test]
    fn the_files_of_the_book_are_copied_to_their_places() {
        let to = tempfile::tempdir().unwrap();
        let to = to.path().join("sources");
        assemble(&workspace_root(), &to).unwrap();
        let files = [
            "book.toml",
            "src/SUMMARY.md",
            "src/README.md",
            "src/docs/guides/laptop.md",
            "src/comm-api/README.md",
            "src/comm-factory/examples/mean.rs",
        ];
        for file in files {
            assert!(to.join(file).is_file(), "{file}");
        }
    }
}
