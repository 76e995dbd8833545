//! A generic caller on the local backend compiles to the instructions of its hand-written twin.
//!
//! Compiles the crate `fixture-twins` with optimisation, reads the assembly and compares function by
//! function.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use rstest::rstest;

/// The instructions of every function of the fixture, by name.
static FUNCTIONS: LazyLock<BTreeMap<String, Vec<String>>> = LazyLock::new(|| {
    let assembly = compile();
    let text = std::fs::read_to_string(&assembly).expect("the compiler wrote assembly");
    std::fs::remove_file(assembly).expect("the file is ours");
    functions(&text)
});

fn compile() -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("assembly");
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let assembly = target.join(format!("twins-{}.s", std::process::id()));
    let built = Command::new(env!("CARGO"))
        .current_dir(package)
        .args([
            "rustc",
            "--quiet",
            "--release",
            "--package",
            "fixture-twins",
        ])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-Ccodegen-units=1"])
        .arg(format!("--emit=asm={}", assembly.display()))
        .output()
        .expect("cargo runs");
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "the twins must compile:\n{errors}");
    assembly
}

/// Takes assembly apart: the instructions between a function's label and the end of its code.
/// Identical functions may have been merged by the compiler; an alias has its target's body.
fn functions(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut bodies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut aliases = Vec::new();
    let mut current: Option<String> = None;
    for line in text.lines().map(str::trim) {
        if let Some((alias, target)) = alias(line) {
            aliases.push((alias, target));
        } else if let Some(name) = line.strip_suffix(':').and_then(function_name) {
            bodies.insert(name.clone(), Vec::new());
            current = Some(name);
        } else if line.contains("Lfunc_end") {
            current = None;
        } else if let Some(body) = current.as_ref().and_then(|name| bodies.get_mut(name)) {
            let directive = line.starts_with('.') && !line.ends_with(':');
            if !directive && !line.is_empty() {
                body.push(without_function_number(line));
            }
        }
    }
    for (alias, target) in aliases {
        let body = bodies[&target].clone();
        bodies.insert(alias, body);
    }
    bodies
}

/// Finds `generic_x` or `twin_x` in a mangled name.
fn function_name(symbol: &str) -> Option<String> {
    if symbol.starts_with(".L") || symbol.starts_with("LBB") {
        return None;
    }
    let start = symbol.find("generic_").or_else(|| symbol.find("twin_"))?;
    let name: String = symbol[start..]
        .chars()
        .take_while(|c| c.is_ascii_lowercase() || *c == '_')
        .collect();
    Some(name)
}

fn alias(line: &str) -> Option<(String, String)> {
    let pair = line.strip_prefix(".set").map(|rest| rest.split_once(','));
    let (alias, target) = pair.unwrap_or_else(|| line.split_once(" = "))?;
    Some((function_name(alias.trim())?, function_name(target.trim())?))
}

/// Makes `.LBB7_2` of the function number 7 comparable with `.LBB9_2` of number 9.
fn without_function_number(line: &str) -> String {
    match line.split_once("LBB") {
        Some((before, after)) => {
            let place = after.split_once('_').map_or(after, |(_, place)| place);
            format!("{before}LBB_{place}")
        }
        None => line.to_owned(),
    }
}

#[rstest]
fn equals_its_twin(
    #[values("rank_and_size", "barriers", "broadcast", "allreduce", "allgatherv")] name: &str,
) {
    let generic = &FUNCTIONS[&format!("generic_{name}")];
    let twin = &FUNCTIONS[&format!("twin_{name}")];
    assert!(!twin.is_empty(), "the twin has instructions");
    assert_eq!(generic, twin);
}

/// The comparison sees differences, and the checks of the twins are really there.
#[test]
fn different_functions_differ() {
    let [barrier, broadcast, reduce, gather] = ["barriers", "broadcast", "allreduce", "allgatherv"]
        .map(|n| &FUNCTIONS[&format!("twin_{n}")]);
    assert_ne!(reduce, gather);
    assert!(barrier.len() < broadcast.len() && broadcast.len() < reduce.len());
    let copies = |body: &[String]| body.iter().filter(|line| line.contains("memcpy")).count();
    assert_eq!(
        (copies(broadcast), copies(reduce), copies(gather)),
        (0, 1, 1)
    );
}
