//! The program `fixtures/heat` with MPI: the same bits as on every backend, and the messages about mistakes, with
//! `COBRE_COMM_CHECK=1` and without. `comm-run/tests/heat.rs` has the other backends.
//!
//! `MPIEXEC` names the `mpiexec` of the library that the test is built with, as `cargo xtask test` sets it; the default is the one in
//! `PATH`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod heat;
mod hello;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::OnceLock;

/// Returns the path of the program.
fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    hello::once(&PROGRAM, || heat::build("mpi"))
}

/// How a job ended, and the output of its ranks.
#[derive(Debug)]
struct Ended {
    status: ExitStatus,
    stdout: Vec<String>,
    /// The lines of all ranks, each rank separately, because `mpiexec` mixes them.
    stderr: String,
}

/// Runs a job for at most this many seconds; after that it exits with 124.
fn run(seconds: &str, ranks: &str, check: &str, mistake: &str) -> Ended {
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let folder = format!("heat-mpi-{}-{ranks}-{check}-{mistake}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    fs::create_dir(&folder).unwrap();
    let mut job = Command::new("timeout");
    job.args(["--kill-after=5", seconds, &mpiexec, "-n", ranks]);
    let script = r#"folder=$1; shift; exec "$0" "$@" 2>"$folder/$$""#;
    job.args(["sh", "-c", script, program()]).arg(&folder);
    job.args(Some(mistake).filter(|mistake| !mistake.is_empty()));
    for name in [
        "OMPI_ALLOW_RUN_AS_ROOT",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM",
        "OMPI_MCA_rmaps_base_oversubscribe",
        // There may be more ranks than processors.
        "OMPI_MCA_mpi_yield_when_idle",
    ] {
        job.env(name, "1");
    }
    for collective in ["ALLREDUCE", "BCAST", "BARRIER", "REDUCE"] {
        let variable = format!("MPIR_CVAR_{collective}_POSIX_INTRA_ALGORITHM");
        job.env(variable, "mpir");
    }
    // Programs of this workspace find the library of `MPICC` by themselves, but this program is outside the workspace.
    job.envs(comm_mpi_probe::FOLDER.map(|folder| ("LD_LIBRARY_PATH", folder)));
    job.env("COBRE_COMM_CHECK", check);
    job.env("COBRE_MPI_TIMEOUT_SECS", "2");
    let output = job.output().unwrap();
    let files = fs::read_dir(&folder).unwrap().map(Result::unwrap);
    let stderr = files
        .map(|file| fs::read_to_string(file.path()).unwrap())
        .collect();
    fs::remove_dir_all(&folder).unwrap();
    Ended {
        status: output.status,
        stdout: hello::sorted(&output.stdout),
        stderr,
    }
}

/// The whole step must take at most a minute, even on a busy machine.
const MINUTE: &str = "60";

#[test]
fn the_same_bits_with_mpi() {
    for ranks in ["1", "2", "3"] {
        let ended = run(MINUTE, ranks, "0", "");
        assert!(ended.status.success(), "{ranks}: {ended:?}");
        assert_eq!(ended.stdout, [heat::LINE], "{ranks}");
    }
}

/// A mistake of the last of three ranks: its name, the exit code of the job, and the messages.
type Mistake = (&'static str, i32, &'static [&'static str]);

#[track_caller]
fn make(check: &str, mistakes: &[Mistake]) {
    for &(mistake, code, said) in mistakes {
        let ended = run(MINUTE, "3", check, mistake);
        assert_eq!(ended.status.code(), Some(code), "{mistake}: {ended:?}");
        for words in said {
            assert!(ended.stderr.contains(words), "{mistake}: {ended:?}");
        }
    }
}

#[test]
fn with_checks_a_mistake_between_ranks_has_its_sentence() {
    make(
        "1",
        &[
            (
                "length",
                1,
                &[
                    "Error: allreduce: mismatch, rank 2: ranks 0, 1 called allreduce(Sum of 10 f64), rank 2 called allreduce(Sum of 9 f64);",
                ],
            ),
            (
                "root",
                1,
                &[
                    "from root 0), rank 2 called broadcast(1 elements of 8 bytes, u64, from root 1);",
                ],
            ),
            (
                "early",
                1,
                &["Error: barrier: peer lost, rank 2: it dropped its communicator or region"],
            ),
            (
                "slow",
                1,
                &[
                    "Error: barrier: timed out, rank 2: rank 2 did not enter the call within 2s; increase COBRE_MPI_TIMEOUT_SECS",
                    "ranks 0, 1 called barrier",
                ],
            ),
            (
                "no-such-root",
                1,
                &[
                    "Error: broadcast: root 3 is not a rank of a communicator of size 3; use 0..3",
                    "Error: broadcast: refused, rank 2: it was called with invalid arguments: ",
                ],
            ),
        ],
    );
}

/// Mistakes that are found without comparing calls.
#[test]
fn without_checks_a_mistake_of_one_rank_has_its_sentence() {
    make(
        "0",
        &[
            ("nothing", 0, &[]),
            ("threads", 0, &[]),
            (
                "one-for-two",
                1,
                &["Error: barrier: refused, rank 2: another thread of this rank is inside"],
            ),
            (
                "no-such-root",
                1,
                &["Error: broadcast: root 3 is not a rank of a communicator of size 3; use 0..3"],
            ),
            (
                "fence",
                0,
                &[
                    "fence: peer lost, rank 2: it dropped its communicator or region",
                    "fatal to: Some(Region)",
                ],
            ),
            ("exit", 7, &[]),
        ],
    );
    let ended = run(MINUTE, "3", "0", "fence");
    assert_eq!(ended.stdout, ["the communicator goes on"; 3], "{ended:?}");
}

/// As in the README: without checks no rank compares calls, so no message names the rank, and a rank that waits hangs.
#[test]
fn without_checks_nobody_names_the_rank() {
    for (mistake, waits) in [
        ("length", false),
        ("root", false),
        ("early", true),
        ("slow", true),
    ] {
        let ended = run("5", "3", "0", mistake);
        assert!(!ended.stderr.contains(", rank 2: "), "{mistake}: {ended:?}");
        if waits {
            assert_eq!(ended.status.code(), Some(124), "{mistake}: {ended:?}");
        }
    }
}
