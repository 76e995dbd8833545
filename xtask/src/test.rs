//! Runs every check and every test.

use std::process::Command;

use crate::docs;
use crate::features;
use crate::mpi::Mpi;
use crate::new_backend;
use crate::process::{self, cargo, command, shown, with_cfg, workspace_root};
use crate::report::{Outcome, Report, bold};
use crate::tidy;
use crate::tools::{CARGO_DENY, GLOO, SHELLCHECK, Tool};

/// MPI burns a processor per rank, so larger worlds take minutes where processors are few: they are for
/// `cargo xtask conformance --backend mpi`.
const MPI_WORLDS: [&str; 6] = ["--", "--table", "--world", "1", "--world", "2"];

/// Runs all steps, prints the summary and returns whether nothing failed.
///
/// A failure does not hide the ones after it. Only what needs compiled code is left out when it does not compile.
pub(crate) fn run(strict: bool) -> bool {
    let mut report = Report::default();
    run_command(&mut report, "format", cargo(&["fmt", "--all", "--check"]));
    report.step("tidy", "cargo xtask tidy", || {
        tidy::outcome(&workspace_root())
    });
    run_with(
        &mut report,
        "shellcheck",
        &SHELLCHECK,
        command("shellcheck", &[".ci/run"]),
    );
    let deny = cargo(&[
        "deny",
        "--workspace",
        "check",
        "bans",
        "licenses",
        "sources",
    ]);
    run_with(&mut report, "deny", &CARGO_DENY, deny);

    let compiles = run_command(&mut report, "build", cargo(&["test", "--no-run"]));
    for (name, command) in compiled_steps() {
        if compiles {
            run_command(&mut report, name, command);
        } else {
            report.step(name, &shown(&command), || {
                Outcome::NotRun("the workspace does not compile".to_owned())
            });
        }
    }

    let others: [(_, _, fn() -> Outcome); 2] = [
        ("sets", features::WHAT, features::without_mpi),
        (
            "scaffold",
            new_backend::check::WHAT,
            new_backend::check::outcome,
        ),
    ];
    for (name, what, step) in others {
        report.step(name, what, || {
            if compiles {
                step()
            } else {
                Outcome::NotRun("the workspace does not compile".to_owned())
            }
        });
    }

    for mpi in Mpi::ALL {
        for (name, command) in mpi_steps(mpi) {
            run_with(&mut report, name, mpi.tool(), command);
        }
    }
    let gloo = benchmark(&["--backend", "tcp", "--peer", "gloo"]);
    run_with(&mut report, "gloo-bench", &GLOO, gloo);
    // What depends on the features is the same with either library, and MPICH starts in a fraction of the time.
    let mpi = Mpi::Mpich;
    let mut factory = mpi.cargo("test", "comm-factory");
    factory.args(["--features", "mpi,shm,tcp", "--test", "conformance_mpi"]);
    factory.args(MPI_WORLDS);
    run_with(&mut report, "factory-mpi", mpi.tool(), factory);
    report.step("sets-mpi", features::WHAT, || {
        let mpich = mpi.tool().obtain();
        mpich.map_or_else(Outcome::NotRun, |()| features::with_mpi(mpi))
    });

    println!("{}\n{report}", bold("==> summary"));
    report.succeeded(strict)
}

/// Lists the steps that need one MPI library.
fn mpi_steps(mpi: Mpi) -> [(&'static str, Command); 6] {
    let mut clippy = mpi.cargo("clippy", "comm-mpi");
    clippy.args(["--all-targets", "--", "-D", "warnings"]);
    let mut life = mpi.cargo("test", "comm-mpi");
    life.args(["--lib", "--test", "life"]);
    let mut suite = mpi.cargo("test", "comm-mpi");
    suite.args(["--test", "conformance"]).args(MPI_WORLDS);
    let mut everywhere = mpi.cargo("test", "comm-factory");
    everywhere.args(["--features", "mpi,shm,tcp", "--test", "everywhere"]);
    let mut matrix = mpi.cargo("test", "sddp");
    matrix.args(["--features", "mpi,shm,tcp", "--test", "sddp", "--", "mpi x"]);
    [
        (mpi.named(["mpich-lint", "ompi-lint"]), clippy),
        (mpi.named(["mpich", "ompi"]), life),
        (mpi.named(["mpich-suite", "ompi-suite"]), suite),
        (mpi.named(["mpich-hello", "ompi-hello"]), everywhere),
        (mpi.named(["mpich-sddp", "ompi-sddp"]), matrix),
        (
            mpi.named(["mpich-bench", "ompi-bench"]),
            benchmark(&["--peer", mpi.name()]),
        ),
    ]
}

/// Runs the benchmark for a moment, so that the command works when somebody wants to measure; it says nothing about speed.
fn benchmark(more: &[&str]) -> Command {
    let mut bench = cargo(&["run", "--quiet", "--package", "xtask", "--", "bench"]);
    bench.args([
        "--unoptimised",
        "--rounds",
        "1",
        "--ranks",
        "2",
        "--seconds",
        "0.01",
    ]);
    bench.args(["--rows", "small"]).args(more);
    bench
}

/// Runs the suite through the factory. The enum adds one match to what the backend's own suite has shown, so small
/// worlds are enough here; `cargo xtask conformance --backend factory` runs all of them.
fn factory_suite(test: &str) -> Command {
    let mut suite = cargo(&["test", "--package", "comm-factory", "--features", "shm,tcp"]);
    suite.args(["--test", test, "--", "--table"]);
    suite.args(["--world", "1", "--world", "2", "--world", "3"]);
    suite
}

/// Runs a few seconds of violence, the same one every time.
fn chaos(package: &str) -> Command {
    let mut chaos = cargo(&["test", "--package", package, "--test", "conformance"]);
    chaos.args(["--", "--chaos", "--seed", "1", "--rounds", "40"]);
    chaos
}

/// Lists the steps that need a workspace that compiles: the default members, which need no MPI.
fn compiled_steps() -> [(&'static str, Command); 12] {
    [
        (
            "clippy",
            cargo(&["clippy", "--all-targets", "--", "-D", "warnings"]),
        ),
        ("test", cargo(&["test", "--no-fail-fast"])),
        ("docs", docs::rustdoc()),
        (
            "factory",
            cargo(&[
                "test",
                "--package",
                "comm-factory",
                "--features",
                "shm,tcp",
                "--lib",
                "--test",
                "select",
                "--test",
                "conformance",
            ]),
        ),
        ("chaos-shm", chaos("comm-shm")),
        ("chaos-tcp", chaos("comm-tcp")),
        ("factory-shm", factory_suite("conformance_shm")),
        ("factory-tcp", factory_suite("conformance_tcp")),
        (
            "sddp",
            cargo(&[
                "test",
                "--package",
                "sddp",
                "--features",
                "shm,tcp",
                "--test",
                "sddp",
            ]),
        ),
        ("bench", benchmark(&["--no-peers"])),
        (
            "portable",
            with_cfg(
                "comm_portable_wait",
                &["test", "--package", "comm-shm", "--tests"],
            ),
        ),
        (
            "models",
            with_cfg(
                "loom",
                &[
                    "test",
                    "--release",
                    "--package",
                    "comm-shm",
                    "--lib",
                    "models",
                ],
            ),
        ),
    ]
}

fn run_command(report: &mut Report, name: &'static str, mut command: Command) -> bool {
    let what = shown(&command);
    report.step(name, &what, || process::run(&mut command))
}

fn run_with(report: &mut Report, name: &'static str, tool: &Tool, mut command: Command) -> bool {
    let what = shown(&command);
    report.step(name, &what, || match tool.obtain() {
        Ok(()) => process::run(&mut command),
        Err(advice) => Outcome::NotRun(advice),
    })
}
