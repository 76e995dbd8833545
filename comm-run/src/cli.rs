//! The command line: what the user asks for.

mod advice;
mod arguments;
pub(crate) mod dry;
pub(crate) mod explain;
mod manual;
pub(crate) mod messages;
pub(crate) mod mpi;
mod variable;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use arguments::{Action, Arguments, BackendName, Bind, Count, EXAMPLES, MOST_RANKS, Machines};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use clap_complete::Shell;
use comm_factory::{Name, Topology};
use comm_run::{Backend, Node, gives_a_place};
pub(crate) use variable::Variable;

/// The most ranks that fit into one segment; `ShmConfig` rejects more.
const MOST_SHM_RANKS: usize = 1024;

/// What the user asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    /// Start a job.
    Run(Options),
    /// Let mpiexec run a job.
    Mpi(Handover),
    /// Show which backend a program would choose.
    Explain,
    /// Check the machine. With `clean`, remove the segments of killed jobs first.
    Doctor { clean: bool },
    /// Print completions.
    Completions(Shell),
    /// Print the manual page.
    Manual,
}

/// A job for mpiexec.
#[derive(Debug, PartialEq)]
pub(crate) struct Handover {
    pub(crate) ranks: usize,
    pub(crate) verbose: bool,
    pub(crate) dry_run: bool,
    pub(crate) variables: Vec<Variable>,
    /// The program and its arguments.
    command: Vec<OsString>,
}

/// A job for comm-run itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) ranks: usize,
    pub(crate) backend: Backend,
    pub(crate) timeout: Option<Duration>,
    /// How long the ranks may take to end after a signal; `None` for the defaults.
    pub(crate) grace: Option<Duration>,
    pub(crate) max_restarts: usize,
    pub(crate) log_dir: Option<PathBuf>,
    pub(crate) events: Option<PathBuf>,
    pub(crate) verbose: bool,
    pub(crate) dry_run: bool,
    /// Whether to bind each rank to its own processor.
    pub(crate) bind: bool,
    pub(crate) variables: Vec<Variable>,
    pub(crate) node: Option<Node>,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

impl Options {
    /// Returns the number of this machine's first rank.
    pub(crate) fn first_rank(&self) -> usize {
        self.node.as_ref().map_or(0, |node| node.node * self.ranks)
    }

    /// Describes the part of the job that this machine knows.
    pub(crate) fn topology(&self) -> Topology {
        let backend = match self.backend {
            Backend::Tcp => Name::Tcp,
            _ => Name::Shm,
        };
        let nodes = self.node.as_ref().map_or(1, |node| node.nodes);
        let first = self.first_rank();
        Topology::launched(backend, nodes * self.ranks, first..first + self.ranks)
    }
}

/// Reads the command line. For help or a usage error, prints it and exits (with 2 for an error).
pub(crate) fn parse() -> Request {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut command = Arguments::command();
    // Adds --help and --version.
    command.build();
    if let Some(complaint) = advice::unknown_option(&command, &words) {
        command.error(ErrorKind::UnknownArgument, complaint).exit();
    }
    request(Arguments::parse_from(words)).unwrap_or_else(|error| error.exit())
}

/// Returns the completion script for a shell.
pub(crate) fn completions(shell: Shell) -> Vec<u8> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "comm-run", &mut script);
    script
}

/// Returns the manual page.
pub(crate) fn manual() -> std::io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let mut command = Arguments::command();
    // Adds --help and --version.
    command.build();
    manual::write(command, EXAMPLES, &mut page)?;
    Ok(page)
}

fn request(arguments: Arguments) -> Result<Request, clap::Error> {
    match arguments.action {
        Some(Action::Explain) => return Ok(Request::Explain),
        Some(Action::Doctor { clean }) => return Ok(Request::Doctor { clean }),
        Some(Action::Completions { shell }) => return Ok(Request::Completions(shell)),
        Some(Action::Manual) => return Ok(Request::Manual),
        None => {}
    }
    let beyond = arguments.beyond_mpiexec();
    let command = interpreted(arguments.python, arguments.command);
    // Always present: clap requires the argument.
    let count = arguments.ranks.unwrap_or(Count::Exactly(1));
    let node = node(count, &arguments.machines)?;
    let (Count::Auto(ranks) | Count::Exactly(ranks)) = count;
    let backend = match (arguments.backend, &node) {
        (Some(BackendName::Mpi), _) => {
            if !beyond.is_empty() {
                return Err(wrong(&format!(
                    "--backend mpi hands the job to mpiexec, so {} cannot be used with it; \
                    start mpiexec yourself to use its own options instead",
                    beyond.join(", ")
                )));
            }
            variable::check(&arguments.env, mpi::is_own).map_err(|text| wrong(&text))?;
            let mut variables = arguments.env;
            if arguments.check {
                variables.push(("COBRE_COMM_CHECK".into(), "1".into()));
            }
            return Ok(Request::Mpi(Handover {
                ranks,
                variables,
                verbose: arguments.verbose,
                dry_run: arguments.dry_run,
                command,
            }));
        }
        (Some(BackendName::Shm), Some(_)) => {
            return Err(wrong(
                "--backend shm works on one machine only; leave it out with --nnodes",
            ));
        }
        (Some(BackendName::Tcp), _) | (None, Some(_)) => Backend::Tcp,
        (Some(BackendName::Shm) | None, None) => Backend::Shm,
    };
    if backend == Backend::Shm && ranks > MOST_SHM_RANKS {
        return Err(wrong(&format!(
            "{ranks} ranks are too many for shared memory (at most {MOST_SHM_RANKS}); use --backend tcp"
        )));
    }
    let max_restarts = arguments.max_restarts.unwrap_or(0);
    if max_restarts > 0 && node.is_some() {
        return Err(wrong(
            "--max-restarts works on one machine only: the other machines would not notice the restart",
        ));
    }
    let own = |name: &OsStr| gives_a_place(name) || (node.is_none() && name == "COBRE_JOB_ID");
    variable::check(&arguments.env, own).map_err(|text| wrong(&text))?;
    let mut command = command.into_iter();
    Ok(Request::Run(Options {
        ranks,
        backend,
        timeout: arguments.timeout.filter(|timeout| !timeout.is_zero()),
        grace: arguments.grace,
        max_restarts,
        log_dir: arguments.log_dir,
        events: arguments.events,
        verbose: arguments.verbose,
        dry_run: arguments.dry_run,
        bind: arguments.bind == Some(Bind::Core),
        variables: arguments.env,
        node,
        // Always present: clap requires the argument.
        program: command.next().unwrap_or_default(),
        args: command.collect(),
    }))
}

/// Inserts the interpreter if the command is a script for it.
fn interpreted(python: Option<OsString>, mut command: Vec<OsString>) -> Vec<OsString> {
    let script = |program: &OsString| Path::new(program).extension() == Some("py".as_ref());
    if command.first().is_some_and(script) {
        command.splice(0..0, python);
    }
    command
}

fn node(count: Count, machines: &Machines) -> Result<Option<Node>, clap::Error> {
    let Machines {
        nnodes: Some(nodes),
        node_rank: Some(node),
        coordinator: Some((coordinator, port)),
        secret_file: Some(secret_file),
    } = machines
    else {
        // None of them was given: each requires the others.
        return Ok(None);
    };
    let ranks = match count {
        Count::Exactly(ranks) => ranks,
        Count::Auto(_) => {
            return Err(wrong(
                "-n auto may mean a different number on each machine; with --nnodes, give the same number everywhere",
            ));
        }
    };
    if node >= nodes {
        return Err(wrong(&format!(
            "--node-rank {node} must be below --nnodes {nodes}: machines are counted from 0"
        )));
    }
    if nodes.saturating_mul(ranks) > MOST_RANKS {
        return Err(wrong(&format!(
            "{nodes} machines with {ranks} ranks each are too many: a job has at most {MOST_RANKS} ranks"
        )));
    }
    let secret_file = std::path::absolute(secret_file)
        .map_err(|error| wrong(&format!("--secret-file {}: {error}", secret_file.display())))?;
    Ok(Some(Node {
        nodes: *nodes,
        node: *node,
        coordinator: coordinator.clone(),
        port: *port,
        secret_file,
    }))
}

fn wrong(message: &str) -> clap::Error {
    Arguments::command().error(ErrorKind::ValueValidation, message)
}

#[cfg(test)]
mod tests;
