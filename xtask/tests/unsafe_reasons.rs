//! The lints of the workspace require a reason above every use of `unsafe`.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly, like the tests"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs clippy, with the lints of the workspace, on a crate with `code`; returns its output.
fn clippy(name: &str, code: &str) -> String {
    let crate_root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let workspace = include_str!("../../Cargo.toml");
    let (_, lints) = workspace
        .split_once("\n[workspace.lints.clippy]\n")
        .unwrap();
    let lints = lints.split("\n[").next().unwrap();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nedition = \"2024\"\n[workspace]\n[lints.clippy]\n{lints}\n"
    );
    fs::create_dir_all(crate_root.join("src")).unwrap();
    fs::write(crate_root.join("Cargo.toml"), manifest).unwrap();
    fs::write(crate_root.join("src/lib.rs"), code).unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["clippy", "--quiet", "--offline"]);
    let output = cargo.current_dir(crate_root).output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_reason_is_asked_for_above_blocks_and_implementations() {
    let code = "
pub struct A(pub *mut u8);
unsafe impl Send for A {}
impl A {
    #[must_use]
    pub fn get(&self) -> u8 {
        unsafe { *self.0 }
    }
}
macro_rules! read {
    ($pointer:expr) => {
        unsafe { *$pointer }
    };
}
#[must_use]
pub fn read(a: &A) -> u8 {
    read!(a.0)
}
";
    let printed = clippy("unexplained", code);
    assert!(
        printed.contains("error: unsafe block missing a safety comment"),
        "{printed}"
    );
    assert!(
        printed.contains("error: unsafe impl missing a safety comment"),
        "{printed}"
    );
    for line in [3, 7, 12] {
        assert!(
            printed.contains(&format!("src/lib.rs:{line}:")),
            "{line}: {printed}"
        );
    }
    let explained = code.replace(
        "        unsafe {",
        "        // SAFETY: I1.\n        unsafe {",
    );
    let explained = explained.replace("\nunsafe impl", "\n// SAFETY: I2.\nunsafe impl");
    let printed = clippy("explained", &explained);
    assert!(!printed.contains("missing a safety comment"), "{printed}");
}
