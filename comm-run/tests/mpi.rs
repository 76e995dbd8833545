//! `--backend mpi` becomes mpiexec: a fake one that prints its arguments, and the real ones.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use common::{Ended, Folder, Starter, comm_run, fresh_mark};

/// Runs `comm-run` with `folder` first in PATH, or as the whole PATH.
fn run(folder: &Path, only: bool, args: &[&str]) -> Ended {
    let mark = fresh_mark();
    let mut command = comm_run(args, &mark);
    let mut path = folder.as_os_str().to_owned();
    if !only {
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap_or_default());
    }
    command.env("PATH", path).env("PMI_RANK", "7");
    // Tests may run as root in a container; Open MPI allows that only with these variables.
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1");
    command.env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    // If two jobs of Open MPI start at once with the same temporary folder, one may fail: both create the same folder in it.
    let temporary = Folder::new();
    command.env("TMPDIR", temporary.join(""));
    Starter::of(command, mark).end()
}

fn fake(folder: &Folder, script: &str) {
    let path = folder.join("mpiexec");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn mpiexec_gets_the_ranks_the_program_and_its_arguments() {
    let folder = Folder::new();
    fake(
        &folder,
        r#"for word; do echo "<$word>"; done; echo $COBRE_COMM_BACKEND ${PMI_RANK-none}; exit 5"#,
    );
    let args = [
        "-n",
        "3",
        "--backend",
        "mpi",
        "--",
        "prog",
        "-n",
        "two words",
    ];
    let ended = run(&folder.join(""), false, &args);
    assert_eq!(ended.code(), 5, "{ended:?}");
    let expected = ["<-n>", "<3>", "<prog>", "<-n>", "<two words>", "mpi none"];
    assert_eq!(ended.stdout, expected);
}

#[test]
fn mpiexec_hears_that_calls_are_to_be_compared() {
    let folder = Folder::new();
    fake(&folder, "echo ${COBRE_COMM_CHECK-none}");
    for (more, expected) in [(&[][..], "none"), (&["--check"], "1")] {
        let args = [&["-n", "3", "--backend", "mpi"], more, &["--", "prog"]].concat();
        let ended = run(&folder.join(""), false, &args);
        assert_eq!(ended.stdout, [expected], "{ended:?}");
    }
}

/// For mpiexec a `:` begins another program.
#[test]
fn a_colon_is_an_argument_of_the_program_like_any_other() {
    let folder = Folder::new();
    fake(
        &folder,
        r#"shift 2; for word; do [ "$word" != : ] || exit 9; done; exec "$@""#,
    );
    let args = [
        "-n",
        "1",
        "--backend",
        "mpi",
        "--",
        "printf",
        "<%s>",
        "a",
        ":",
        "it's $x",
    ];
    let ended = run(&folder.join(""), false, &args);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout, ["<a><:><it's $x>"]);
}

#[test]
fn without_mpiexec_it_is_127_and_says_what_to_do() {
    let folder = Folder::new();
    let ended = run(
        &folder.join(""),
        true,
        &["-n", "3", "--backend", "mpi", "--", "prog"],
    );
    assert_eq!(ended.code(), 127, "{ended:?}");
    assert!(ended.says("mpiexec: not found in PATH"), "{ended:?}");
}

#[test]
fn a_dry_run_shows_the_command_line_of_mpiexec() {
    let folder = Folder::new();
    fake(&folder, "echo started");
    let args = [
        "-n",
        "3",
        "--backend",
        "mpi",
        "--dry-run",
        "--",
        "prog",
        "a b",
    ];
    let ended = run(&folder.join(""), false, &args);
    assert_eq!(ended.code(), 0, "{ended:?}");
    assert_eq!(ended.stdout[0], "  COBRE_COMM_BACKEND=mpi");
    assert_eq!(ended.stdout.last().unwrap(), "  mpiexec -n 3 prog 'a b'");
}

/// Returns every mpiexec of this machine, each in its own folder under the plain name.
fn every_mpiexec() -> Vec<Folder> {
    let mut folders = Vec::new();
    for program in ["mpiexec.hydra", "mpiexec.openmpi"] {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut candidates = std::env::split_paths(&path).map(|folder| folder.join(program));
        let Some(found) = candidates.find(|candidate| candidate.exists()) else {
            comm_testing::not_run(format_args!("there is no {program} here"));
            continue;
        };
        let folder = Folder::new();
        // Not a link: Hydra looks for its helper programs beside the path of its command.
        fake(&folder, &format!(r#"exec '{}' "$@""#, found.display()));
        folders.push(folder);
    }
    folders
}

/// Ends a script so that its rank lives for a moment. If all ranks end at once, Hydra 4.0 itself dies of SIGPIPE or returns 255
/// in 3 of 120 runs on a busy machine; with this, in 0 of 150.
const LIVE: &str = "sleep 0.3";

#[test]
fn every_mpiexec_here_starts_as_many_ranks_also_above_the_cores() {
    for folder in every_mpiexec() {
        let script = "echo rank ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} of \
                      ${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} on $COBRE_COMM_BACKEND";
        let script = &format!("{script}; {LIVE}");
        let args = ["-n", "5", "--backend", "mpi", "--", "sh", "-c", script];
        let ended = run(&folder.join(""), false, &args);
        assert_eq!(ended.code(), 0, "{ended:?}");
        let mut lines = ended.stdout;
        lines.sort();
        let expected: Vec<_> = (0..5)
            .map(|rank| format!("rank {rank} of 5 on mpi"))
            .collect();
        assert_eq!(lines, expected);
    }
}

#[test]
fn every_mpiexec_here_leaves_a_colon_to_the_program() {
    for folder in every_mpiexec() {
        let script = &format!("echo \"$@\"; {LIVE}");
        let program = ["sh", "-c", script, "sh", "a", ":", "echo", "b"];
        let args = [&["-n", "2", "--backend", "mpi", "--"], &program[..]].concat();
        let ended = run(&folder.join(""), false, &args);
        assert_eq!(ended.code(), 0, "{ended:?}");
        assert_eq!(ended.stdout, ["a : echo b", "a : echo b"]);
    }
}
