//! Keeps the same file names in every backend crate: who knows one knows all.

use super::Finding;
use super::tree::Tree;

const BACKENDS: [&str; 4] = ["comm-local", "comm-mpi", "comm-shm", "comm-tcp"];
const ALWAYS: [&str; 3] = ["README.md", "src/communicator.rs", "src/lib.rs"];
/// What a backend has that is configured and can fail to start; the local one is a unit struct that does neither.
const CONFIGURED: [&str; 2] = ["src/config.rs", "src/error.rs"];
const SUITE: &str = "tests/conformance.rs";

/// Finds files that a backend crate lacks.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let present = BACKENDS
        .iter()
        .filter(|name| tree.contains(&format!("{name}/Cargo.toml")));
    let wanted = present.flat_map(|name| {
        files_of(name, tree.contains("conformance")).map(move |file| format!("{name}/{file}"))
    });
    let missing = wanted.filter(|path| !tree.contains(path));
    missing
        .map(|path| Finding::of(path, "missing: every backend crate has this file"))
        .collect()
}

fn files_of(backend: &str, suite_exists: bool) -> impl Iterator<Item = &'static str> {
    let configured = backend != "comm-local";
    let configured = CONFIGURED.into_iter().filter(move |_| configured);
    ALWAYS
        .into_iter()
        .chain(configured)
        .chain(suite_exists.then_some(SUITE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(tree: &Tree) -> Vec<String> {
        check(tree)
            .into_iter()
            .map(|finding| finding.path)
            .collect()
    }

    #[test]
    fn a_backend_needs_its_fixed_files() {
        let tree = Tree::of([("comm-tcp/Cargo.toml", ""), ("comm-tcp/src/lib.rs", "")]);
        let expected = [
            "README.md",
            "src/communicator.rs",
            "src/config.rs",
            "src/error.rs",
        ];
        assert_eq!(
            missing(&tree),
            expected.map(|file| format!("comm-tcp/{file}"))
        );
    }

    #[test]
    fn the_local_backend_has_nothing_to_configure() {
        let tree = Tree::of([
            ("comm-local/Cargo.toml", ""),
            ("comm-local/README.md", ""),
            ("comm-local/src/communicator.rs", ""),
            ("comm-local/src/lib.rs", ""),
        ]);
        assert!(missing(&tree).is_empty());
    }

    #[test]
    fn the_suite_is_wanted_once_it_exists() {
        let tree = Tree::of([
            ("comm-local/Cargo.toml", ""),
            ("comm-local/README.md", ""),
            ("comm-local/src/communicator.rs", ""),
            ("comm-local/src/lib.rs", ""),
            ("conformance/Cargo.toml", ""),
        ]);
        assert_eq!(missing(&tree), ["comm-local/tests/conformance.rs"]);
    }

    #[test]
    fn crates_that_do_not_exist_lack_nothing() {
        assert!(missing(&Tree::of([("comm-api/Cargo.toml", "")])).is_empty());
    }
}
