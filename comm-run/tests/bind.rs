//! `--bind core`: a processor for each rank; and the completions, which offer the option.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::io::Write;
use std::process::{Command, Stdio};

use common::Starter;

const LIST: &str = "sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/self/status";

/// The processors this process may use, as the kernel lists them.
fn allowed() -> Vec<usize> {
    let output = Command::new("sh").args(["-c", LIST]).output().unwrap();
    let list = String::from_utf8(output.stdout).unwrap();
    let range = |range: &str| {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        low.parse::<usize>().unwrap()..=high.parse().unwrap()
    };
    list.trim().split(',').flat_map(range).collect()
}

#[test]
fn each_rank_has_a_processor_of_its_own() {
    let allowed = allowed();
    let ranks = allowed.len().min(8).to_string();
    let args = ["-n", &ranks, "--bind", "core", "--", "sh", "-c", LIST];
    let ended = Starter::new(&args).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let number = |line: &String| line.split_once("] ").unwrap().1.parse().unwrap();
    let mut bound: Vec<usize> = ended.stdout.iter().map(number).collect();
    bound.sort_unstable();
    bound.dedup();
    assert_eq!(bound.len().to_string(), ranks, "{ended:?}");
    assert!(bound.iter().all(|cpu| allowed.contains(cpu)), "{bound:?}");
}

#[test]
fn verbose_says_which_rank_is_bound_where() {
    let verbose = |bind: &str| {
        let ended = Starter::new(&[
            "-n",
            "1",
            "--bind",
            bind,
            "--verbose",
            "--",
            "sh",
            "-c",
            LIST,
        ])
        .end();
        assert_eq!(ended.code(), 0, "{ended:?}");
        let number = ended.stdout[0].strip_prefix("[0] ").unwrap().to_owned();
        (
            ended.says(&format!("bound: rank 0 on processor {number}")),
            ended.says("bound: "),
        )
    };
    assert_eq!(verbose("core"), (true, true));
    assert_eq!(verbose("none"), (false, false));
}

#[test]
fn nobody_is_bound_unasked() {
    let ended = Starter::new(&["-n", "1", "--", "sh", "-c", LIST]).end();
    let own = Command::new("sh").args(["-c", LIST]).output().unwrap();
    let own = String::from_utf8(own.stdout).unwrap();
    assert_eq!(ended.stdout, [format!("[0] {}", own.trim())]);
}

/// `taskset` limits the processors of the launcher; the ranks stay within the limit.
#[test]
fn more_ranks_than_processors_are_wrong_usage() {
    let first = allowed()[0].to_string();
    let run = env!("CARGO_BIN_EXE_comm-run");
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", &first, run]);
    command.args(["-n", "2", "--bind", "core", "--", "echo", "started"]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let ended = Starter::of(command, common::fresh_mark()).end();
    assert_eq!(ended.code(), 2, "{ended:?}");
    assert!(ended.stdout.is_empty(), "{ended:?}");
    assert!(
        ended.says("2 ranks cannot be bound to 1 processors"),
        "{ended:?}"
    );
}

#[test]
fn a_dry_run_shows_the_processor() {
    let args = ["-n", "1", "--bind", "core", "--dry-run", "--", "true"];
    let ended = Starter::new(&args).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    let cpu = ended.stdout[0]
        .strip_prefix("rank 0, on processor ")
        .unwrap();
    let cpu: usize = cpu.strip_suffix(':').unwrap().parse().unwrap();
    assert!(allowed().contains(&cpu), "{cpu}");
}

#[test]
fn completions_know_every_option_and_bash_understands_its_own() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = Starter::new(&["completions", shell]).end();
        assert_eq!(ended.code(), 0, "{shell}: {ended:?}");
        let script = ended.stdout.join("\n");
        for option in [
            "backend",
            "log-dir",
            "bind",
            "node-rank",
            "doctor",
            "completions",
        ] {
            assert!(script.contains(option), "{shell}: {option}");
        }
        if shell != "bash" {
            continue;
        }
        let mut check = Command::new("bash");
        check.arg("-n").stdin(Stdio::piped());
        let mut check = check.spawn().unwrap();
        check
            .stdin
            .take()
            .unwrap()
            .write_all(script.as_bytes())
            .unwrap();
        assert!(
            check.wait().unwrap().success(),
            "bash does not understand it"
        );
    }
}
