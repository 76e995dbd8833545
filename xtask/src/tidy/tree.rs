//! The files to check, in memory, so that the rules do not read the disk.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use ignore::WalkBuilder;

/// Maps each path, relative to the root and with `/`, to its text; a file that is not UTF-8 has an empty text.
pub(super) struct Tree(pub(super) BTreeMap<String, String>);

impl Tree {
    /// Reads every file below `root` that git would not ignore. No files are an error, because a check of nothing proves nothing.
    pub(super) fn load(root: &Path) -> Result<Self, Box<dyn Error>> {
        let mut walk = WalkBuilder::new(root);
        walk.hidden(false).parents(false).require_git(false);
        walk.filter_entry(|entry| entry.file_name() != ".git");
        let mut files = BTreeMap::new();
        for entry in walk.build() {
            let entry = entry?;
            if entry.file_type().is_some_and(|kind| kind.is_file()) {
                let path = entry.path().strip_prefix(root)?.display().to_string();
                let text = String::from_utf8(fs::read(entry.path())?);
                files.insert(path, text.unwrap_or_default());
            }
        }
        if files.is_empty() {
            return Err(format!("{} has no files to check", root.display()).into());
        }
        Ok(Self(files))
    }

    /// Lists the paths and texts of files with this ending.
    pub(super) fn texts(&self, ending: &str) -> impl Iterator<Item = (&str, &str)> {
        let all = self.0.iter().map(|(path, text)| (&**path, &**text));
        all.filter(move |(path, _)| path.ends_with(ending))
    }

    /// Returns whether `path` is a file, or a directory that contains one.
    pub(super) fn contains(&self, path: &str) -> bool {
        let below = format!("{}/", path.trim_end_matches('/'));
        let directory = || self.0.keys().any(|file| file.starts_with(&below));
        path.is_empty() || self.0.contains_key(path) || directory()
    }
}
