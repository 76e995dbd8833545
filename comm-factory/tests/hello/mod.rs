//! The example `hello`: how to build it and the other examples, and its output, computed a second time here.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "every test file is a crate of its own and uses a part"
)]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

use std::ops::Range;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Builds `hello` with these features and returns its path.
pub fn build(features: &str) -> String {
    example("hello", features)
}

/// Builds an example of comm-factory with these features and returns its path.
pub fn example(name: &str, features: &str) -> String {
    let example = ["--package", "comm-factory", "--example", name];
    cargo_build(&[&example[..], &["--features", features]].concat())
}

/// Builds a program for the first test that asks for it, and returns its path to all tests. Compiling, or waiting for another cargo's
/// lock on the folder, may take any time, so no watchdog runs meanwhile, neither in the test that builds nor in one that waits.
pub fn once(program: &'static OnceLock<String>, build: impl FnOnce() -> String) -> &'static str {
    comm_testing::unwatched(|| program.get_or_init(build))
}

/// Builds the program that the arguments select, reusing crates that were compiled for this test, and returns its path.
///
/// The program gets its own folder for these arguments, because a concurrent test may build it with other features.
pub fn cargo_build(arguments: &[&str]) -> String {
    comm_testing::unwatched(|| run_cargo(arguments))
}

fn run_cargo(arguments: &[&str]) -> String {
    let compiled = compiled();
    let folder = arguments.join("-").replace([',', '/'], "-");
    let built = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["build", "--quiet", "--message-format", "json"])
        .env("CARGO_BUILD_BUILD_DIR", &compiled)
        .arg("--target-dir")
        .arg(compiled.join("programs").join(folder))
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let complaints = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{complaints}");
    // The program is the only executable of this build.
    let messages = String::from_utf8(built.stdout).unwrap();
    let (_, rest) = messages.rsplit_once(r#""executable":""#).unwrap();
    rest.split('"').next().unwrap().to_owned()
}

/// Returns the directory above `debug/deps`, which contains this test.
fn compiled() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.ancestors().nth(3).unwrap().to_path_buf()
}

/// Returns the lines of some ranks of a job of `size`, in order.
pub fn lines(ranks: Range<usize>, size: usize) -> Vec<String> {
    let roots: Vec<f64> = (0..1000_u32).map(|i| f64::from(i).sqrt()).collect();
    let sum: f64 = roots.iter().sum();
    let first = |rank: usize| 1000 * rank / size;
    let share = |rank: usize| roots[first(rank)..first(rank + 1)].iter().sum::<f64>();
    // In rank order, starting with the first rank's value: starting with -0.0, or folding as a tree, would change the bits.
    let shares = (0..size).map(share).reduce(|sum, next| sum + next).unwrap();
    let largest = roots[999];
    let table = roots
        .iter()
        .fold(0_u64, |bits, root| bits.rotate_left(1) ^ root.to_bits());
    let [sum, shares, largest] = [sum, shares, largest].map(f64::to_bits);
    ranks
        .map(|rank| {
            format!(
                "rank {rank} of {size}: sum {sum:016x}, of shares {shares:016x}, largest {largest:016x}, \
                 last {largest:016x}, table {table:016x}"
            )
        })
        .collect()
}

/// Returns the lines as `comm-run` shows them: with the rank in front.
pub fn prefixed(ranks: Range<usize>, size: usize) -> Vec<String> {
    let lines = ranks.clone().zip(lines(ranks, size));
    lines
        .map(|(rank, line)| format!("[{rank}] {line}"))
        .collect()
}

/// Splits the output of a job into sorted lines, because ranks print in any order.
pub fn sorted(output: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(output);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}
