//! Holds the files to check in memory, so that the rules themselves touch no disk.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// Maps each path, relative to the root and with `/`, to its text; files that are not UTF-8 have none.
#[derive(Debug, Default)]
pub(super) struct Tree {
    files: BTreeMap<String, Option<String>>,
}

impl Tree {
    /// Reads what git tracks or would track below `root`; without git, everything but build output.
    ///
    /// # Errors
    ///
    /// Fails when a file cannot be read and when there is none: a check of nothing proves nothing.
    pub(super) fn load(root: &Path) -> Result<Self, String> {
        let paths = match listed_by_git(root) {
            Ok(paths) => paths,
            Err(reason) => {
                println!(
                    "tidy: git lists nothing ({reason}), so every file outside target is checked"
                );
                let mut paths = Vec::new();
                walk(root, "", &mut paths)
                    .map_err(|error| format!("{}: {error}", root.display()))?;
                paths
            }
        };
        let mut files = BTreeMap::new();
        for path in paths {
            let file = root.join(&path);
            // A file deleted but not yet committed is still listed; a submodule or a link may be a directory.
            if file.is_file() {
                let bytes = std::fs::read(&file).map_err(|error| format!("{path}: {error}"))?;
                files.insert(path, String::from_utf8(bytes).ok());
            }
        }
        if files.is_empty() {
            return Err(format!("{} has no files to check", root.display()));
        }
        Ok(Self { files })
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the text of a file.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path)?.as_deref()
    }

    /// Lists all paths in order.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// Lists path and text of the files whose name ends in `ending`.
    pub(super) fn texts(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        let texts = self
            .files
            .iter()
            .filter_map(|(path, text)| Some((path.as_str(), text.as_deref()?)));
        texts.filter(move |(path, _)| path.ends_with(ending))
    }

    /// Returns whether `path` is a file or a directory that holds one.
    pub(super) fn contains(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self.paths().any(|file| file.starts_with(&below))
    }

    #[cfg(test)]
    pub(super) fn of<const N: usize>(files: [(&str, &str); N]) -> Self {
        let files = files.map(|(path, text)| (path.to_owned(), Some(text.to_owned())));
        Self {
            files: files.into(),
        }
    }
}

fn listed_by_git(root: &Path) -> Result<Vec<String>, String> {
    // Containers often check out as one user and build as another; listing files runs nothing of the repository.
    let trust = ["-c", "safe.directory=*"];
    let listing = [
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ];
    let output = Command::new("git")
        .args(trust)
        .args(listing)
        .current_dir(root)
        .output();
    let output = output.map_err(|error| error.to_string())?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        return Err(message
            .lines()
            .next()
            .unwrap_or("no reason given")
            .to_owned());
    }
    let listing = String::from_utf8(output.stdout).map_err(|_| "a path is not UTF-8".to_owned())?;
    Ok(listing.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(root.join(below))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() {
            name.clone()
        } else {
            format!("{below}/{name}")
        };
        if !entry.file_type()?.is_dir() {
            paths.push(path);
        } else if name != ".git" && !name.starts_with("target") {
            walk(root, &path, paths)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walking_finds_hidden_files_and_leaves_out_build_output() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut paths = Vec::new();
        walk(root, "", &mut paths).unwrap();
        assert!(paths.iter().any(|path| path == "src/tidy/tree.rs"));
        assert!(!paths.iter().any(|path| path.starts_with("target")));
    }

    #[test]
    fn directories_are_contained_through_their_files() {
        let tree = Tree::of([("docs/book/one.md", "")]);
        assert!(
            tree.contains("docs/book")
                && tree.contains("docs/")
                && tree.contains("docs/book/one.md")
        );
        assert!(!tree.contains("doc") && !tree.contains("docs/book/two.md"));
    }
}
