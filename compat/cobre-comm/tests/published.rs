//! The program `compat/fixtures/cobre-comm-018`, written for 0.18, passes its tests with the published crate and, through
//! `[patch]`, with this one. With the feature `mpi` of this crate the program uses MPI, too.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rstest::rstest;

#[rstest]
#[case::with_the_published_crate("published", None)]
#[case::with_this_crate("ours", Some(env!("CARGO_MANIFEST_DIR")))]
fn a_program_for_0_18_passes(#[case] name: &str, #[case] patch: Option<&str>) {
    let program = copy(name);
    let mut cargo = Command::new(env!("CARGO"));
    // Reuses what the workspace has already compiled.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    cargo.args(["test", "--quiet", "--target-dir"]).arg(target);
    if let Some(path) = patch {
        let patch = format!("patch.crates-io.cobre-comm.path={path:?}");
        cargo.args(["--config", &patch]);
    }
    if cfg!(feature = "mpi") {
        cargo.args(["--features", "mpi"]);
    }
    let output = cargo.current_dir(&program).output().unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
    // Checks that the right crate was built: for cargo, a patch that matches no version is only a warning.
    let lock = fs::read_to_string(program.join("Cargo.lock")).unwrap();
    let mut packages = lock.split("[[package]]");
    let package = packages.find(|package| package.contains("name = \"cobre-comm\""));
    let from_registry = package.unwrap().contains("source = \"registry");
    assert_eq!(from_registry, patch.is_none(), "{lock}");
    let passed = out.matches("test result: ok.").count();
    assert!(passed >= 3, "{out}{err}");
}

/// Copies the program, with the dependency versions of the workspace: the two builds need different lock files.
fn copy(name: &str) -> PathBuf {
    let compat = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let root = compat.parent().unwrap();
    let from = compat.join("fixtures/cobre-comm-018");
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cobre-comm-018-{name}"));
    for folder in ["src", "tests"] {
        fs::create_dir_all(to.join(folder)).unwrap();
        for file in fs::read_dir(from.join(folder)).unwrap() {
            let file = file.unwrap().path();
            update(&file, &to.join(folder).join(file.file_name().unwrap()));
        }
    }
    update(&from.join("Cargo.toml"), &to.join("Cargo.toml"));
    fs::copy(root.join("Cargo.lock"), to.join("Cargo.lock")).unwrap();
    to
}

/// Copies a file only if it has changed, because cargo compiles newer files again.
fn update(from: &Path, to: &Path) {
    let new = fs::read(from).unwrap();
    if fs::read(to).ok() != Some(new) {
        fs::copy(from, to).unwrap();
    }
}
