//! Prepares a release without uploading it: creates the packages, compiles them as a user would get them, and compares them with the last ones.

use std::process::Command;

use crate::mpi::Mpi;
use crate::process::{Terminal, cargo, command, workspace_root};
use crate::report::{Outcome, StepTable, bold};
use crate::tools::CARGO_SEMVER_CHECKS;

mod manifest;

use manifest::Workspace;

/// How to create the packages.
#[derive(Debug, clap::Args)]
pub(crate) struct Release {
    /// Include files that are not committed
    #[arg(long)]
    allow_dirty: bool,
    /// Create the packages without compiling them
    #[arg(long)]
    no_verify: bool,
}

/// Checks the manifests, creates the packages in the order of their dependencies, and lists what is left to do; returns whether nothing
/// failed.
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
    report.step("manifests", "the required fields of a package", |_| {
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
    println!("- upload, in this order (this command does not):");
    println!("  cargo publish {}", packages(&order).join(" "));
    report.succeeded(false)
}

/// Returns the arguments that select the packages.
fn packages(order: &[&str]) -> Vec<String> {
    let both = |name: &&str| ["--package".to_owned(), (*name).to_owned()];
    order.iter().flat_map(both).collect()
}

/// Creates all packages at once: cargo keeps those that are not published yet in a temporary registry.
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

/// Compares the interfaces with those of the last release: the newest tag `v*`.
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
