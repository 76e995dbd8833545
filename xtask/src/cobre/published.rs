//! Runs the published tests that need only published files: those of `cobre-comm` on ours, and those of the solver that join the ranks of
//! a launcher, over shared memory and TCP.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use super::{Crate, MPI, folder, io, launcher, succeed};
use crate::process::{cargo, copy_tree, shown, workspace_root};

/// The tests of `cobre-sddp` that run with many ranks.
const OF_THE_SOLVER: [&str; 3] = ["conformance", "mpi_wire", "test_mpi_sync_cuts_invariant"];

/// The file whose only test joins the job.
const JOINS: &str = OF_THE_SOLVER[2];

/// The file with a test that joins the job and is ignored as slow, unless this part of its name selects it.
const SLOW: (&str, &str) = (OF_THE_SOLVER[1], "across_world_size");

/// Parts of the names of the tests in `mpi_wire` that read an unpublished folder.
const UNPUBLISHED: [&str; 2] = ["prepare_hydro_models", "derived_inflow_seeds_rank"];

/// Ends the ranks of a test that hangs.
const SECONDS: &str = "300";

/// Compiles the tests.
pub(super) fn build() -> Result<(), String> {
    succeed(interface()?.arg("--no-run"))?;
    succeed(of_the_solver(&OF_THE_SOLVER).arg("--no-run"))
}

/// Runs all of them.
pub(super) fn tests() -> Result<(), String> {
    succeed(&mut interface()?)?;
    let launcher = launcher()?;
    for backend in ["shm", "tcp"] {
        for ranks in [2, 4] {
            on_ranks(&launcher, backend, ranks)?;
        }
        without_a_rank(&launcher, backend)?;
    }
    Ok(())
}

/// Prepares the tests of `cobre-comm` as tests of a package that depends on our crate.
fn interface() -> Result<Command, String> {
    let package = folder().join("interface");
    fs::create_dir_all(package.join("src")).map_err(io(&package))?;
    fs::write(package.join("src/lib.rs"), "").map_err(io(&package))?;
    let ours = workspace_root().join("compat/cobre-comm");
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
    // Reuses what the workspace has already compiled.
    test.env("CARGO_TARGET_DIR", workspace_root().join("target"));
    test.current_dir(&package);
    Ok(test)
}

/// Prepares tests of the solver, with the C++ solver that was compiled for the runs.
fn of_the_solver(tests: &[&str]) -> Command {
    let mut test = Crate::Ours.cargo("test", "cobre-sddp", MPI);
    test.args(["--release", "--features", "test-support"]);
    for name in tests {
        test.args(["--test", name]);
    }
    test
}

/// Prepares tests of the solver so that `launcher` starts them with `arguments`.
fn launched(tests: &[&str], launcher: &[&str], arguments: &[&str]) -> Command {
    let mut test = of_the_solver(tests);
    let runner = format!("target.'cfg(all())'.runner={launcher:?}");
    test.args(["--config", &runner]);
    // In one thread, so that all ranks run the same test at a time.
    test.args(["--", "--test-threads", "1"]).args(arguments);
    for name in UNPUBLISHED {
        test.args(["--skip", name]);
    }
    test
}

/// Runs the tests of the solver on `ranks` ranks: on each rank some must pass, and none may fail.
fn on_ranks(launcher: &Path, backend: &str, ranks: usize) -> Result<(), String> {
    let (launcher, size) = (launcher.display().to_string(), ranks.to_string());
    let runner = [
        &*launcher,
        "-n",
        &size,
        "--backend",
        backend,
        "--timeout",
        SECONDS,
        "--",
    ];
    let (program, name) = SLOW;
    let slow = launched(&[program], &runner, &["--ignored", name]);
    let start = Instant::now();
    let mut sum = 0;
    for (mut test, programs) in [
        (launched(&OF_THE_SOLVER, &runner, &[]), OF_THE_SOLVER.len()),
        (slow, 1),
    ] {
        let (passed, printed) = output(&mut test)?;
        let results: Vec<usize> = printed.lines().filter_map(passes).collect();
        if !passed || results.len() != ranks * programs || results.contains(&0) {
            return Err(format!("{}:\n{printed}", shown(&test)));
        }
        sum += results.iter().sum::<usize>();
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{backend} x {ranks}: published tests of the solver: {sum} passed on all ranks together, in {seconds:.1} s"
    );
    Ok(())
}

/// Runs the test that joins the job without rank 1: it must fail. If it passes, the ranks do not communicate.
fn without_a_rank(launcher: &Path, backend: &str) -> Result<(), String> {
    let launcher = launcher.display().to_string();
    let stays_away = "[ \"$RANK\" = 1 ] || exec \"$0\" \"$@\"";
    let runner = [
        &*launcher,
        "-n",
        "2",
        "--backend",
        backend,
        "--timeout",
        SECONDS,
        "--",
        "sh",
        "-c",
        stays_away,
    ];
    let mut test = launched(&[JOINS], &runner, &[]);
    let (passed, printed) = output(&mut test)?;
    if passed || !printed.contains("rank 1") {
        return Err(format!(
            "{} passed without rank 1 on {backend}:\n{printed}",
            shown(&test)
        ));
    }
    println!("{backend}: without rank 1 the test fails, as it must");
    Ok(())
}

/// Runs to the end; returns whether the command succeeded, and its whole output.
fn output(command: &mut Command) -> Result<(bool, String), String> {
    let output = command.output();
    let output = output.map_err(|error| format!("{}: {error}", shown(command)))?;
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    let text = text(&output.stdout) + &text(&output.stderr);
    Ok((output.status.success(), text))
}

/// Reads how many tests passed from the last line of a test program, with any prefix.
fn passes(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("test result: ok. ")?;
    rest.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_test_program_says_at_its_end_is_read() {
        let line =
            "[1] test result: ok. 38 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out";
        assert_eq!(passes(line), Some(38));
        assert_eq!(passes("test result: FAILED. 1 passed; 1 failed"), None);
    }
}
