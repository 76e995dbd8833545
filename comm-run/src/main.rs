//! `comm-run -n 4 -- program`: starts the ranks of a job on this machine.

// The command line and the messages.
mod cli;
// `comm-run doctor`: looks for problems on this machine.
mod doctor;

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cli::messages::{self, Voice};
use cli::{Options, Request, Variable, dry, explain, mpi};
use comm_kit::secret_file;
use comm_run::{Job, LateFile, Logs, Signal, StartError};
use doctor::Level;

/// The exit code for wrong usage.
const USAGE: i32 = 2;
/// How long the ranks may take to end after `SIGTERM`: less than the 30 s after which SLURM and Kubernetes kill.
const GRACE: Duration = Duration::from_secs(20);
/// The same after the first Ctrl-C: shorter, because a person waits.
const CTRL_C_GRACE: Duration = Duration::from_secs(10);

fn main() -> ExitCode {
    let code = match cli::parse() {
        Request::Run(options) => {
            warn_of_unknown(&options.variables);
            run(options)
        }
        Request::Mpi(handover) => {
            warn_of_unknown(&handover.variables);
            mpi::hand_over(&handover)
        }
        Request::Explain => explain(),
        Request::Doctor { clean } => doctor(clean),
        Request::Manual => shown(cli::manual().and_then(|page| std::io::stdout().write_all(&page))),
        Request::Completions(shell) => shown(std::io::stdout().write_all(&cli::completions(shell))),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn run(options: Options) -> i32 {
    let first_rank = options.first_rank();
    let topology = options.verbose.then(|| options.topology());
    let voice = Arc::new(Voice::new());
    let listener = Arc::clone(&voice);
    let mut job = Job::new(options.program, options.ranks)
        .args(options.args)
        .backend(options.backend)
        .grace(Signal::Terminate, options.grace.unwrap_or(GRACE))
        .grace(Signal::Interrupt, options.grace.unwrap_or(CTRL_C_GRACE))
        .max_restarts(options.max_restarts)
        .on_notice(move |notice| listener.notice(notice, options.timeout, options.max_restarts))
        .forward_signals();
    for (name, value) in options.variables {
        job = job.env(name, value);
    }
    if let Some(node) = options.node {
        if let Err(complaint) = check_secret(&node.secret_file) {
            messages::line(&complaint);
            return USAGE;
        }
        job = job.node(node);
    }
    if let Some(timeout) = options.timeout {
        job = job.timeout(timeout);
    }
    if options.bind {
        job = job.bind_to_processors();
    }
    if options.dry_run {
        return dry_run(&job);
    }
    if let Some(folder) = options.log_dir {
        // Two logs per rank.
        if let Err(error) = job.reserve_descriptors(2 * options.ranks) {
            return failed(&error);
        }
        match Logs::create(&folder, first_rank, options.ranks) {
            Ok(logs) => job = job.add_sink(logs),
            Err(error) => {
                messages::line(&format!("cannot write the logs: {error}"));
                return USAGE;
            }
        }
    }
    if let Some(file) = options.events {
        // Append, so that jobs can share a file.
        match LateFile::create(&file, true) {
            Ok(file) => job = job.events(file),
            Err(error) => {
                let file = file.display();
                messages::line(&format!("cannot write the events to {file}: {error}"));
                return USAGE;
            }
        }
    }
    if let Some(topology) = topology {
        messages::line(&topology.to_string());
        // If the ranks cannot be bound, starting the job returns the error.
        if let Some(bound) = job.binding() {
            messages::line(&bound);
        }
    }
    match job.run() {
        Ok(outcome) => {
            voice.ending(&outcome, options.timeout);
            voice.end(outcome.undelivered > 0);
            outcome.exit_code()
        }
        Err(error) => {
            voice.line(&error.to_string());
            voice.end(false);
            error.exit_code()
        }
    }
}

/// Checks that the file holds a secret and that other users cannot access it. Access for the group is only a warning:
/// in a group that all users share it exposes the secret, but Kubernetes mounts its secrets that way.
fn check_secret(path: &Path) -> Result<(), String> {
    let refused = |reason: &str| Err(format!("the secret file {}: {reason}", path.display()));
    let mode = match secret_file::read(path) {
        Ok((_, mode)) => mode,
        Err(reason) => return refused(&reason),
    };
    let close = format!("run: chmod 600 {}", path.display());
    if mode & 0o007 != 0 {
        return refused(&format!(
            "every user of this machine can access it; {close}"
        ));
    }
    if mode & 0o070 != 0 {
        let path = path.display();
        messages::line(&format!(
            "warning: your group can access the secret file {path}; {close}"
        ));
    }
    Ok(())
}

/// Warns about variables, of this process or `given`, whose names look like ours although no code reads them.
fn warn_of_unknown(given: &[Variable]) {
    let here = std::env::vars_os().map(|(name, _)| name);
    let names: BTreeSet<_> = here
        .chain(given.iter().map(|(name, _)| name.clone()))
        .collect();
    for unknown in comm_kit::variables::unknown(names) {
        messages::line(&format!("warning: {unknown}"));
    }
}

/// Prints why a job cannot start and returns the exit code.
fn failed(error: &StartError) -> i32 {
    messages::line(&error.to_string());
    error.exit_code()
}

fn dry_run(job: &Job) -> i32 {
    match job.dry_run() {
        Ok(plans) => shown(dry::print(&plans, &mut std::io::stdout().lock())),
        Err(error) => failed(&error),
    }
}

/// Explains the backend; returns 0 if a program with every backend would get a communicator here, else 1.
fn explain() -> i32 {
    let explanation = explain::here();
    match shown(std::io::stdout().write_all(explanation.text.as_bytes())) {
        0 => i32::from(!explanation.usable),
        code => code,
    }
}

/// Checks the machine; returns 1 if no job can run here, else 0.
fn doctor(clean: bool) -> i32 {
    let mut findings = Vec::new();
    if clean {
        findings.push(doctor::clean());
    }
    findings.extend(doctor::examine());
    let mut out = std::io::stdout().lock();
    let mut lines = findings.iter();
    match shown(lines.try_for_each(|finding| writeln!(out, "{finding}"))) {
        0 => i32::from(
            findings
                .iter()
                .any(|finding| finding.level == Level::Problem),
        ),
        code => code,
    }
}

/// Returns the exit code of a command that only prints.
pub(crate) fn shown(result: std::io::Result<()>) -> i32 {
    match result {
        Ok(()) => 0,
        Err(error) => {
            messages::line(&format!("the output cannot be written: {error}"));
            141
        }
    }
}
