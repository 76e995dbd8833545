//! Does everything of a release but the upload: the packages are made, compiled as a user would get them, and compared with the last ones.

use std::process::Command;

use crate::mpi::Mpi;
use crate::process::{Terminal, cargo, command, workspace_root};
use crate::report::{Outcome, StepTable, bold};
use crate::tools::CARGO_SEMVER_CHECKS;

mod manifest;

use manifest::Workspace;

/// Holds how to make the packages.
#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    /// Take files that are not committed
    #[arg(long)]
    allow_dirty: bool,
    /// Make the packages without compiling them
    #[arg(long)]
    no_verify: bool,
}

/// Checks the manifests, makes the packages in the order of their dependencies, and says what is left to do; returns whether nothing failed.
pub(crate) fn run(arguments: &Release) -> bool {
    let root = workspace_root();
    let workspace = match Workspace::load(&root) {
        Ok(workspace) => workspace,
        Err(reason) => {
            eprintln!("error: {reason}");
            return false;
        }
    };
    let order = match workspace.order() {
        Ok(order) => order,
        Err(reason) => {
            eprintln!("error: {reason}");
            return false;
        }
    };
    let mut report = StepTable::default();
    report.step("manifests", "what a package must say", |_| {
        let findings = workspace.findings(&root);
        for finding in &findings {
            println!("{finding}");
        }
        match findings.len() {
            0 => Outcome::Passed,
            found => Outcome::Failed(format!("{found} missing")),
        }
    });
    report.step("package", "cargo package", |terminal| {
        package(terminal, &order, arguments)
    });
    report.step("semver", "cargo semver-checks", |terminal| {
        semver(terminal, &order)
    });
    println!("{}\n{report}", bold("==> summary"));
    println!("\n{}", bold("==> before the upload"));
    for open in workspace.open(&root) {
        println!("- {open}");
    }
    println!("- upload, in this order; nothing here does that:");
    println!("  cargo publish {}", packages(&order).join(" "));
    report.succeeded(false)
}

/// Names the packages to cargo.
fn packages(order: &[&str]) -> Vec<String> {
    let both = |name: &&str| ["--package".to_owned(), (*name).to_owned()];
    order.iter().flat_map(both).collect()
}

/// Makes all packages at once: for cargo, those that are not published yet are in a registry of its own for the time being.
fn package(terminal: &Terminal, order: &[&str], arguments: &Release) -> Outcome {
    if !arguments.no_verify
        && let Err(advice) = Mpi::Mpich.tool().obtain()
    {
        return Outcome::NotRun(format!("comm-mpi cannot be compiled: {advice}"));
    }
    let mut package = cargo(&["package"]);
    package.args(packages(order));
    if arguments.allow_dirty {
        package.arg("--allow-dirty");
    }
    if arguments.no_verify {
        package.arg("--no-verify");
    }
    terminal.run(&mut package)
}

/// Compares the interfaces with those of the last release, which is the newest tag `v*`.
fn semver(terminal: &Terminal, order: &[&str]) -> Outcome {
    if let Some(advice) = CARGO_SEMVER_CHECKS.missing() {
        return Outcome::NotRun(advice);
    }
    let Some(tag) = last_release() else {
        let reason = "there is no release to compare with: no tag v*".to_owned();
        return Outcome::NotRun(reason);
    };
    let check = |name: &&str| -> Command {
        cargo(&["semver-checks", "--package", name, "--baseline-rev", &tag])
    };
    terminal.run_all(order.iter().map(check).collect())
}

fn last_release() -> Option<String> {
    let describe = ["describe", "--tags", "--abbrev=0", "--match", "v*"];
    let output = command("git", &describe).output().ok()?;
    let tag = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (output.status.success() && !tag.is_empty()).then_some(tag)
}
