//! One program with every backend, however it is started: alone, under `comm-run` on shm, tcp and mpi, and under `mpiexec`.
//!
//! Needs an MPI library. `MPIEXEC` names the `mpiexec` of the library that the test is built with, as
//! `cargo xtask test` sets it; the default is the one in `PATH`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod hello;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use hello::{cargo_build, lines, prefixed, sorted};

/// Every job takes about a second, and is ended after this many.
const SECONDS: &str = "60";

/// Runs a command to its end and returns its lines.
fn run(command: &[&str], prepare: impl Fn(&mut Command) -> &mut Command) -> Vec<String> {
    let mut bounded = Command::new("timeout");
    bounded.args(["--kill-after=5", SECONDS]).args(command);
    // Tests may run as root in a container, and on fewer cores than ranks: Open MPI allows that only with these variables.
    for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
        bounded.env(name, "1");
    }
    bounded.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
    bounded.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let output = prepare(&mut bounded).output().unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{complaints}",
        output.status
    );
    sorted(&output.stdout)
}

/// A folder for `PATH` with the `mpiexec` of the library that this program was built with.
struct Programs(PathBuf);

impl Programs {
    fn new(mpiexec: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = folder.join(format!("everywhere-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        // Not a link: Hydra looks for its helper programs beside the path of its command.
        let script = folder.join("mpiexec");
        fs::write(&script, format!("#!/bin/sh\nexec '{mpiexec}' \"$@\"\n")).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        Self(folder)
    }
}

impl Drop for Programs {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_same_whoever_starts_it() {
    let hello = hello::build("mpi,shm,tcp");
    let comm_run = cargo_build(&["--package", "comm-run", "--bin", "comm-run"]);
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let own = Programs::new(&mpiexec);
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{path}", own.0.display());

    assert_eq!(run(&[&hello], |c| c), lines(0..1, 1), "alone");
    for size in [1, 3] {
        let n = size.to_string();
        for backend in ["shm", "tcp"] {
            let command = [&comm_run, "-n", &n, "--backend", backend, "--", &hello];
            let printed = run(&command, |c| c);
            assert_eq!(printed, prefixed(0..size, size), "comm-run on {backend}");
        }
        let command = [&comm_run, "-n", &n, "--backend", "mpi", "--", &hello];
        let printed = run(&command, |c| c.env("PATH", &path));
        assert_eq!(printed, lines(0..size, size), "comm-run on mpi");
        let printed = run(&[&mpiexec, "-n", &n, &hello], |c| c);
        assert_eq!(printed, lines(0..size, size), "{mpiexec}");
    }
}

#[test]
fn the_program_of_the_readme_prints_once_under_mpi() {
    let quickstart = hello::example("quickstart", "mpi,shm,tcp");
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let printed = run(&[&mpiexec, "-n", "3", &quickstart], |c| c);
    assert_eq!(printed, ["pi is 3.141593, from 3 x mpi"]);
    let readme = include_str!("../../README.md");
    assert!(
        readme.contains(&format!("\n{}\n", printed[0])),
        "{printed:?}"
    );
}

#[test]
fn every_thread_has_a_communicator_of_its_own() {
    let threads = hello::example("threads", "mpi,shm,tcp");
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let alone = run(&[&threads], |c| c);
    assert_eq!(
        alone,
        ["numbers below 10000: 49995000, their squares: 333283335000"]
    );
    for check in ["0", "1"] {
        let command = [&mpiexec, "-n", "2", &threads];
        let printed = run(&command, |c| c.env("COBRE_COMM_CHECK", check));
        assert_eq!(printed, alone, "checks: {check}");
    }
}

#[test]
fn exact_sums_under_mpi_have_the_bits_of_one_rank() {
    let statistics = hello::example("statistics", "mpi,shm,tcp");
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let alone = run(&[&statistics], |c| c);
    for (ranks, threads) in [("1", "2"), ("2", "1"), ("3", "4")] {
        let printed = run(&[&mpiexec, "-n", ranks, &statistics, threads], |c| c);
        assert_eq!(printed, alone, "{ranks} ranks, {threads} threads");
    }
}
