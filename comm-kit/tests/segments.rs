//! Stale segments of killed jobs are distinguished from those of living jobs.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly, like the tests"
)]

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use comm_kit::segments::{MAGIC, is_named, remove_stale};
use rustix::fs::{FlockOperation, flock};

/// A folder for one test, removed with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("comm-kit-segments-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Self(path)
    }

    fn with(self, name: &str, start: &[u8]) -> Self {
        fs::write(self.0.join(name), start).unwrap();
        self
    }

    /// Locks a file, as the creator of a segment does, until the returned file is dropped.
    fn locked(&self, name: &str) -> File {
        let file = File::open(self.0.join(name)).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        file
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn what_nobody_holds_is_removed() {
    let folder = Folder::new("stale")
        .with("cobre-a", &MAGIC)
        .with("cobre-a.0", b"")
        .with("cobre-b", &MAGIC)
        .with("cobre-b.1", b"")
        .with("other-c", &MAGIC);
    let held = folder.locked("cobre-b");
    let removed = remove_stale(&folder.0, "cobre-");
    assert_eq!(removed, ["cobre-a", "cobre-a.0"]);
    assert_eq!(folder.names(), ["cobre-b", "cobre-b.1", "other-c"]);
    drop(held);
    assert_eq!(remove_stale(&folder.0, "cobre-"), ["cobre-b", "cobre-b.1"]);
    assert_eq!(folder.names(), ["other-c"]);
}

/// The name of a segment may end like that of a lock: the content of the file decides.
#[test]
fn a_name_that_ends_in_a_number_is_removed_too() {
    let folder = Folder::new("number")
        .with("cobre-run.7", &MAGIC)
        .with("cobre-run.7.0", b"")
        .with("cobre-run.8", &MAGIC)
        .with("cobre-run.8.0", b"");
    let held = folder.locked("cobre-run.8");
    let removed = remove_stale(&folder.0, "cobre-");
    assert_eq!(removed, ["cobre-run.7", "cobre-run.7.0"]);
    drop(held);
}

/// A file that exists under another name does not count as the one under this name.
#[test]
fn a_name_belongs_to_one_file() {
    let folder = Folder::new("named")
        .with("first", &MAGIC)
        .with("second", &MAGIC);
    let [first, second] = ["first", "second"].map(|name| folder.0.join(name));
    let file = File::open(&first).unwrap();
    assert!(is_named(&first, &file) && !is_named(&second, &file));
    fs::hard_link(&first, folder.0.join("third")).unwrap();
    fs::rename(&second, &first).unwrap();
    assert!(!is_named(&first, &file));
    fs::remove_file(&first).unwrap();
    symlink("third", &first).unwrap();
    assert!(!is_named(&first, &file), "a link is not followed");
}

#[test]
fn what_is_no_segment_stays() {
    let folder = Folder::new("strange")
        .with("cobre-notes", b"buy milk")
        .with("cobre-short", b"cobre")
        .with("cobre-notes.1", b"and bread")
        .with("segment", &MAGIC);
    fs::create_dir(folder.0.join("cobre-folder")).unwrap();
    symlink("segment", folder.0.join("cobre-link")).unwrap();
    let before = folder.names();
    assert_eq!(remove_stale(&folder.0, "cobre-"), [""; 0]);
    assert_eq!(folder.names(), before);
    assert_eq!(remove_stale(&folder.0.join("none"), "cobre-"), [""; 0]);
}
