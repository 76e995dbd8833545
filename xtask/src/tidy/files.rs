//! Keeps files small, the layouts of backends equal, and machine-specific paths out of the repository.

use super::{OnFinding, Tree};

const MOST_LINES: usize = 500;

/// Finds Rust files that are too long to read in one sitting.
pub(super) fn size(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts(".rs") {
        let lines = text.lines().count();
        if lines > MOST_LINES {
            let message = format!("{lines} lines: split it before {MOST_LINES}");
            report(path, lines, message);
        }
    }
}

/// The top-level directories that differ from machine to machine; without their slashes, so that this file is clean.
pub(super) const PRIVATE: [&str; 5] = ["Users", "farm", "home", "root", "work"];

/// Finds absolute paths below the [`PRIVATE`] directories.
pub(super) fn private_paths(tree: &Tree, report: &mut OnFinding<'_>) {
    for (path, text) in tree.texts("") {
        for (number, line) in (1..).zip(text.lines()) {
            for top in PRIVATE.iter().filter(|top| names(line, top)) {
                let message = format!("a path below /{top} exists on one machine only");
                report(path, number, message);
            }
        }
    }
}

/// Returns whether `line` contains `/top/` at the start of a path, not in the middle of a longer one.
fn names(line: &str, top: &str) -> bool {
    let within = |c: char| c.is_alphanumeric() || "._-~*{}$)]".contains(c);
    let pattern = format!("/{top}/");
    let mut places = line.match_indices(&pattern);
    places.any(|(at, _)| !line[..at].ends_with(within))
}

const BACKENDS: [&str; 4] = ["comm-local", "comm-mpi", "comm-shm", "comm-tcp"];
const ALWAYS: [&str; 4] = [
    "README.md",
    "src/communicator.rs",
    "src/lib.rs",
    "tests/conformance.rs",
];
/// The files of a backend that has a configuration and can fail to start; the local backend has neither.
const CONFIGURED: [&str; 2] = ["src/config.rs", "src/error.rs"];

/// Finds backends that lack a file: all backends have the same files, so that a reader of one knows the others.
pub(super) fn layout(tree: &Tree, report: &mut OnFinding<'_>) {
    for backend in BACKENDS {
        let manifest = format!("{backend}/Cargo.toml");
        let configured = CONFIGURED.iter().filter(|_| backend != "comm-local");
        for file in ALWAYS.iter().chain(configured) {
            if tree.contains(&manifest) && !tree.contains(&format!("{backend}/{file}")) {
                report(&manifest, 1, format!("every backend has a {file}"));
            }
        }
    }
}
