//! Runs the tests of the published `cobre-comm`, all of which need published files only, on ours.

use std::fs;

use super::{Crate, folder, io, succeed};
use crate::process::{cargo, copy_tree, workspace_root};

/// Runs them as tests of a package that depends on our crate.
pub(super) fn tests() -> Result<(), String> {
    let package = folder().join("interface");
    fs::create_dir_all(package.join("src")).map_err(io(&package))?;
    fs::write(package.join("src/lib.rs"), "").map_err(io(&package))?;
    let ours = workspace_root().join("cobre-comm");
    let manifest = format!(
        "[workspace]\n[package]\nname = \"interface\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [features]\nmpi = []\nshared-memory = []\n\
         [dependencies]\ncobre-comm = {{ path = '{}', features = [\"shared-memory\"] }}\n",
        ours.display()
    );
    fs::write(package.join("Cargo.toml"), manifest).map_err(io(&package))?;
    let tests = Crate::Ours.folder().join("cobre-comm/tests");
    copy_tree(&tests, &package.join("tests"), &|_| true).map_err(io(&tests))?;
    let lock = workspace_root().join("Cargo.lock");
    fs::copy(&lock, package.join("Cargo.lock")).map_err(io(&lock))?;
    let mut test = cargo(&["test", "--features", "shared-memory"]);
    test.args(["--config", "profile.dev.debug='line-tables-only'"]);
    // What the workspace has compiled is not compiled again.
    test.env("CARGO_TARGET_DIR", workspace_root().join("target"));
    succeed(test.current_dir(&package))
}
