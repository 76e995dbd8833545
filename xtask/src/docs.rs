//! Builds the documentation of the crates, and checks the Markdown documents.

use std::process::Command;

use crate::process::{self, cargo, shown, workspace_root};
use crate::report::Outcome;
use crate::tidy;

/// What to do with the documentation.
#[derive(Debug, clap::Args)]
pub(crate) struct Docs {
    /// Show it in the browser
    #[arg(long)]
    open: bool,
}

/// Prepares rustdoc for the default members, and on request for the native half of the Python package; warnings are errors.
pub(crate) fn rustdoc(with_python: bool) -> Command {
    let mut command = cargo(&["doc", "--no-deps"]);
    command.args(packages(with_python));
    command.env("RUSTDOCFLAGS", "-D warnings");
    command
}

/// Selects the default members, which need nothing installed, or all members that need no MPI library.
pub(crate) const fn packages(with_python: bool) -> &'static [&'static str] {
    if with_python {
        &[
            "--workspace",
            "--exclude",
            "cobre-comm",
            "--exclude",
            "comm-mpi",
            "--exclude",
            "comm-mpi-probe",
        ]
    } else {
        &[]
    }
}

/// Builds and checks; returns whether there are no findings.
pub(crate) fn run(arguments: &Docs) -> bool {
    let mut doc = rustdoc(false);
    if arguments.open {
        doc.args(["--package", "comm-api", "--open"]);
    }
    let built = process::run(&mut doc);
    if let Outcome::Failed(reason) = &built {
        eprintln!("error: {}: {reason}", shown(&doc));
    }
    let mut examples = cargo(&["test", "--doc", "--quiet"]);
    let tested = process::run(&mut examples);
    if let Outcome::Failed(reason) = &tested {
        eprintln!("error: {}: {reason}", shown(&examples));
    }
    let tidied = tidy::run(&workspace_root());
    if built == Outcome::Passed {
        println!("docs: target/doc/comm_api/index.html; the documents begin at docs/README.md");
    }
    built == Outcome::Passed && tested == Outcome::Passed && tidied
}
