//! Runs the chores of the workspace: every check of CI is a command here.
//!
//! `cargo xtask` alone lists the commands. Exit codes: 0 done, 1 a check failed, 2 wrong arguments.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod bench;
mod book;
mod chaos;
mod ci;
mod cobre;
mod conformance;
mod demo;
mod docs;
mod features;
mod mpi;
mod mutants;
mod new_backend;
mod process;
mod profiles;
mod python;
mod release;
mod report;
mod test;
mod tidy;
mod tools;

/// Checks, tests and demonstrates the workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every check and every test, then print what passed, failed and did not run
    Test(test::Test),
    /// Run what CI runs: the same steps as `test`
    Ci(test::Test),
    /// Check what the compiler does not: sizes and names of files, links and numbers in documents
    Tidy {
        /// Check the tree below DIR instead of this workspace
        #[arg(long, value_name = "DIR", value_parser = directory)]
        root: Option<PathBuf>,
    },
    /// Run the conformance suite on a backend and print a table of clauses, cases, worlds and times
    Conformance(conformance::Conformance),
    /// Compare the backends with MPICH, Open MPI and Gloo, or with another build, in turns, and report which targets hold
    Bench(bench::Bench),
    /// Run random programs in real processes, inject faults, and check that the contract holds
    Chaos(chaos::Chaos),
    /// Change the code in small ways for half an hour, and list the changes that no test notices
    Mutants(mutants::Mutants),
    /// Run a distributed solver on four ranks, then on every installed backend, and compare the results
    Demo(demo::Demo),
    /// Run the published solver cobre on the backends, and compare every file with the original on MPI
    Cobre(cobre::Cobre),
    /// Build the documentation of all crates with its warnings as errors, and check the links of the documents
    Docs(docs::Docs),
    /// Build the book of the documents in target/book, and check every link of its pages
    Book(book::Book),
    /// Build a program with the features of each build profile; print sizes, libraries and start-up times
    Profiles(profiles::Profiles),
    /// Prepare a release without uploading it: check the manifests, create and compile the packages, compare the interfaces
    Release(release::Release),
    /// Build the Python package, install it into an empty environment and test it, or compare its speed with mpi4py
    Python(python::Python),
    /// Create the crate of a new backend, which passes the suite for a world of one rank
    NewBackend(new_backend::NewBackend),
}

fn directory(argument: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(argument);
    if path.is_dir() {
        Ok(path)
    } else {
        Err("not a directory".to_owned())
    }
}

fn main() -> ExitCode {
    let succeeded = match Cli::parse().command {
        None => {
            print!("{}", Cli::command().render_help());
            true
        }
        Some(Command::Test(arguments)) => test::run(&arguments),
        Some(Command::Ci(arguments)) => ci::run(&arguments),
        Some(Command::Tidy { root }) => tidy::run(&root.unwrap_or_else(process::workspace_root)),
        Some(Command::Conformance(arguments)) => return conformance::run(&arguments),
        Some(Command::Bench(arguments)) => bench::run(&arguments),
        Some(Command::Chaos(arguments)) => return chaos::run(&arguments),
        Some(Command::Mutants(arguments)) => mutants::run_all(&arguments),
        Some(Command::Demo(arguments)) => demo::run(&arguments),
        Some(Command::Cobre(arguments)) => cobre::run_all(&arguments),
        Some(Command::Docs(arguments)) => docs::run(&arguments),
        Some(Command::Book(arguments)) => book::run(&arguments),
        Some(Command::Profiles(arguments)) => profiles::run(&arguments),
        Some(Command::Release(arguments)) => release::run(&arguments),
        Some(Command::Python(arguments)) => python::run(&arguments),
        Some(Command::NewBackend(arguments)) => {
            new_backend::run(&process::workspace_root(), &arguments)
        }
    };
    if succeeded {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
