//! Runs every check and every test.

use std::process::Command;

use crate::mpi::Mpi;
use crate::process::{self, cargo, command, shown, with_cfg, workspace_root};
use crate::report::{Outcome, Report, bold};
use crate::tidy;
use crate::tools::{CARGO_DENY, SHELLCHECK, Tool};

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

    for mpi in Mpi::ALL {
        let [lint, test, suite, sddp] = match mpi {
            Mpi::Mpich => ["mpich-lint", "mpich", "mpich-suite", "mpich-sddp"],
            Mpi::OpenMpi => ["ompi-lint", "ompi", "ompi-suite", "ompi-sddp"],
        };
        let mut clippy = mpi.cargo("clippy");
        clippy.args(["--all-targets", "--", "-D", "warnings"]);
        run_with(&mut report, lint, mpi.tool(), clippy);
        let mut life = mpi.cargo("test");
        life.args(["--lib", "--test", "life"]);
        run_with(&mut report, test, mpi.tool(), life);
        // MPI burns a processor per rank, so larger worlds take minutes where processors are few: they are for
        // `cargo xtask conformance --backend mpi`.
        let mut worlds = mpi.cargo("test");
        worlds.args(["--test", "conformance", "--", "--table"]);
        worlds.args(["--world", "1", "--world", "2"]);
        run_with(&mut report, suite, mpi.tool(), worlds);
        let mut matrix = mpi.cargo_of("test", "comm-factory");
        matrix.args(["--features", "shm,tcp,mpi", "--test", "sddp", "--", "mpi x"]);
        run_with(&mut report, sddp, mpi.tool(), matrix);
    }

    println!("{}\n{report}", bold("==> summary"));
    report.succeeded(strict)
}

/// Lists the steps that need a workspace that compiles: the default members, which need no MPI.
fn compiled_steps() -> [(&'static str, Command); 7] {
    let mut docs = cargo(&["doc", "--no-deps"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    [
        (
            "clippy",
            cargo(&["clippy", "--all-targets", "--", "-D", "warnings"]),
        ),
        ("test", cargo(&["test", "--no-fail-fast"])),
        ("docs", docs),
        (
            "sddp-lint",
            cargo(&[
                "clippy",
                "--package",
                "comm-factory",
                "--features",
                "shm,tcp",
                "--all-targets",
                "--",
                "-D",
                "warnings",
            ]),
        ),
        (
            "factory",
            cargo(&["test", "--package", "comm-factory", "--features", "shm,tcp"]),
        ),
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
