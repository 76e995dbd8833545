//! The program `fixtures/heat`, a crate outside the workspace: how to build it, and its output.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file is a crate of its own and uses a part"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::fs;
use std::path::Path;

use crate::hello::cargo_build;

/// The output of the program on every backend, with any number of ranks.
pub const LINE: &str = "hash 5890be96d8956da0, product 0c08db3bd0fefae7, warmest 45.306145 at [24, 16], coldest 3.612191, last change 1.286e-1";

/// Builds a copy of the program with the dependency versions of the workspace, so that they need not be compiled again, and returns
/// its path.
pub fn build(features: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let from = root.join("fixtures/heat");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("heat-{features}"));
    fs::create_dir_all(to.join("src")).unwrap();
    let sources = fs::read_dir(from.join("src")).unwrap();
    let sources = sources.map(|file| Path::new("src").join(file.unwrap().file_name()));
    for file in sources.chain(["Cargo.toml".into()]) {
        let text = fs::read_to_string(from.join(&file)).unwrap();
        let text = text.replace("../..", root.to_str().unwrap());
        // Only changed files, because cargo compiles newer files again.
        if fs::read_to_string(to.join(&file)).ok().as_ref() != Some(&text) {
            fs::write(to.join(&file), text).unwrap();
        }
    }
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).unwrap();
    let manifest = to.join("Cargo.toml").display().to_string();
    cargo_build(&["--manifest-path", &manifest, "--features", features])
}
