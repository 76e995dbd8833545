//! The options, as `--help`, the manual and the completions show them, and the values they accept.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use super::variable::{self, Variable};

/// The most ranks on one machine: a larger number is a typing mistake.
pub(super) const MOST_RANKS: usize = 4096;

pub(super) const EXAMPLES: &str = "\
Examples:
  comm-run -n 4 -- ./solver input.toml       four ranks
  comm-run -n auto -- python3 train.py       one rank per core
  comm-run -n 2 --timeout 60 -- ./test       two ranks, at most one minute
  comm-run -n 4 --backend tcp -- ./solver    TCP instead of shared memory
  comm-run -n 4 --backend mpi -- ./solver    started by the mpiexec in PATH
  comm-run -n 4 --log-dir logs -- ./solver   also write logs/rank-0.out, logs/rank-0.err, ..
  comm-run -n 4 --events log -- ./solver     append the job's events to log, as JSON lines
  comm-run -n 4 --bind core -- ./solver      bind each rank to its own processor
  comm-run -n 4 --max-restarts 3 -- ./solver restart the job when a rank fails
  comm-run -n 4 --env TRACE=1 -- ./solver    set a variable for every rank
  comm-run -n 4 --dry-run -- ./solver        show what would be started
  comm-run explain                           show which backend a program would choose here
  comm-run doctor                            look for problems on this machine
  comm-run completions bash                  print a completion script for a shell
  comm-run manual                            print the manual page

Two machines, four ranks on each, with the same secret file on both:
  comm-run -n 4 --nnodes 2 --node-rank 0 --coordinator host0:29500 --secret-file key -- ./solver
  comm-run -n 4 --nnodes 2 --node-rank 1 --coordinator host0:29500 --secret-file key -- ./solver

Every rank gets its place in the job from environment variables: COBRE_COMM_BACKEND with
COBRE_SHM_* or COBRE_TCP_*, and, as under torchrun, RANK, WORLD_SIZE, LOCAL_RANK,
LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Its standard input is empty.

When a rank fails, the others have half a second to report it. Then comm-run ends them and
everything they started. comm-run passes Ctrl-C and SIGTERM on to the ranks, which then have
10 s (Ctrl-C) or 20 s (SIGTERM) to end; --grace changes both. A second Ctrl-C kills them.

Exit code:
  0      every rank exited with 0
  N      the code of the rank that caused the failure; 128 + signal if a signal killed it
         (137: SIGKILL); after Ctrl-C or SIGTERM the code of the ranks, if all exited by themselves
  124    the job timed out (--timeout)
  130    stopped by Ctrl-C (129: SIGHUP, 131: SIGQUIT, 143: SIGTERM)
  141    the output or a log can no longer be written
  125    comm-run itself failed, for example because it ran out of file descriptors
  126    the program cannot be executed
  127    the program was not found
  2      wrong usage";

/// Starts N ranks of a program on this machine, and ends all of them when one fails.
#[derive(Debug, Parser)]
#[command(
    name = "comm-run",
    version,
    after_help = EXAMPLES,
    override_usage = "comm-run -n <N> [OPTIONS] -- <PROGRAM> [ARGS]...\n       comm-run explain | doctor | completions <SHELL> | manual",
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    disable_help_subcommand = true
)]
pub(super) struct Arguments {
    #[command(subcommand)]
    pub(super) action: Option<Action>,

    /// Number of ranks to start, or `auto` for one per core.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = count, required = true, allow_negative_numbers = true)]
    pub(super) ranks: Option<Count>,

    /// How the ranks communicate [default: shm, or tcp with --nnodes].
    #[arg(long, value_name = "BACKEND")]
    pub(super) backend: Option<BackendName>,

    /// End the job after this many seconds; fractions are allowed, 0 means no timeout.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) timeout: Option<Duration>,

    /// Seconds to wait before killing ranks after SIGTERM or Ctrl-C [default: 20 and 10].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    pub(super) grace: Option<Duration>,

    /// Restart the job when a rank fails, at most N times.
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    pub(super) max_restarts: Option<usize>,

    /// Also write the output of each rank to DIR/rank-N.out and DIR/rank-N.err.
    #[arg(long, value_name = "DIR")]
    pub(super) log_dir: Option<PathBuf>,

    /// Append the job's events (started, cause, ended) to FILE as JSON lines.
    #[arg(long, value_name = "FILE")]
    pub(super) events: Option<PathBuf>,

    /// What to bind each rank to [default: none].
    #[arg(long, value_name = "TO")]
    pub(super) bind: Option<Bind>,

    /// Set a variable for every rank; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable::parser())]
    pub(super) env: Vec<Variable>,

    /// With --backend mpi, check that all ranks make the same calls, and name a late rank; shm and tcp always do.
    #[arg(long)]
    pub(super) check: bool,

    /// Start a PROGRAM whose name ends in .py with this interpreter.
    #[arg(long, value_name = "INTERPRETER")]
    pub(super) python: Option<OsString>,

    /// Print which ranks start where, and how they communicate.
    #[arg(short, long)]
    pub(super) verbose: bool,

    /// Print the variables and the command line of each rank without starting anything.
    #[arg(long)]
    pub(super) dry_run: bool,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    pub(super) command: Vec<OsString>,

    // Last: everything after it would appear under its heading.
    #[command(flatten)]
    pub(super) machines: Machines,
}

impl Arguments {
    /// Returns the given options that have no effect if `mpiexec` starts the ranks.
    pub(super) fn beyond_mpiexec(&self) -> Vec<&'static str> {
        let options = [
            ("--timeout", self.timeout.is_some()),
            ("--grace", self.grace.is_some()),
            ("--max-restarts", self.max_restarts.is_some()),
            ("--log-dir", self.log_dir.is_some()),
            ("--events", self.events.is_some()),
            ("--bind", self.bind.is_some()),
            ("--nnodes", self.machines.nnodes.is_some()),
        ];
        let given = options.into_iter().filter(|(_, is_given)| *is_given);
        given.map(|(name, _)| name).collect()
    }
}

#[derive(Debug, Clone, Copy, Subcommand)]
pub(super) enum Action {
    /// Show which backend a program would choose here, and which variable decides that.
    #[command(
        after_help = "Exit code: 0, or 1 if a program would get an error instead of a communicator."
    )]
    Explain,
    /// Check this machine's shared memory, limits, processors, MPI, ports and clock.
    #[command(after_help = "Exit code: 0, or 1 if no job can run here.")]
    Doctor {
        /// First remove the shared-memory segments that killed jobs of this user left behind.
        #[arg(long)]
        clean: bool,
    },
    /// Print a completion script for a shell.
    #[command(
        after_help = "For example: comm-run completions bash > ~/.local/share/bash-completion/completions/comm-run"
    )]
    Completions {
        /// The shell to complete in.
        shell: Shell,
    },
    /// Print the manual page.
    #[command(
        after_help = "For example: comm-run manual > ~/.local/share/man/man1/comm-run.1, then: man comm-run"
    )]
    Manual,
}

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Many machines, one comm-run on each")]
pub(super) struct Machines {
    /// Number of machines in the job, each with N ranks.
    #[arg(long, value_name = "M", value_parser = number, allow_negative_numbers = true, requires_all = ["node_rank", "coordinator", "secret_file"])]
    pub(super) nnodes: Option<usize>,

    /// Number of this machine, counted from 0. Rank 0 runs on machine 0.
    #[arg(long, value_name = "K", value_parser = number, allow_negative_numbers = true, requires = "nnodes")]
    pub(super) node_rank: Option<usize>,

    /// Where rank 0 listens: a name or address of machine 0 that the other machines can reach, and a free port.
    #[arg(long, value_name = "HOST:PORT", requires = "nnodes", value_parser = address)]
    pub(super) coordinator: Option<(String, u16)>,

    /// A file with a long random string, the same on every machine and readable only by you.
    #[arg(long, value_name = "FILE", requires = "nnodes")]
    pub(super) secret_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(super) enum BackendName {
    /// Shared memory, on one machine only.
    Shm,
    /// TCP sockets, on one machine or several.
    Tcp,
    /// An MPI library; the mpiexec in PATH starts the ranks.
    Mpi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Bind {
    /// Do not bind: the right choice for ranks with several threads.
    None,
    /// Bind each rank to one processor: steadier and faster for single-threaded ranks.
    Core,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Count {
    Auto(usize),
    Exactly(usize),
}

fn count(text: &str) -> Result<Count, String> {
    if text == "auto" {
        return std::thread::available_parallelism()
            .map(|cores| Count::Auto(cores.get().min(MOST_RANKS)))
            .map_err(|error| format!("cannot count the cores: {error}"));
    }
    match text.parse() {
        Ok(0) => Err("a job needs at least one rank".into()),
        Ok(ranks) if ranks > MOST_RANKS => Err(format!("a job has at most {MOST_RANKS} ranks")),
        Ok(ranks) => Ok(Count::Exactly(ranks)),
        Err(_) => Err("expected a number of ranks, or `auto`".into()),
    }
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse();
    number.map_err(|_| "expected a whole number, 0 or more".into())
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    let time = Duration::try_from_secs_f64(seconds)
        .map_err(|_| "expected a number of seconds, 0 or more")?;
    // Zero disables the timeout; a value that only rounds to zero does not.
    let least = Duration::from_nanos(u64::from(seconds > 0.0));
    Ok(time.max(least))
}

pub(super) fn address(text: &str) -> Result<(String, u16), String> {
    let expected = "expected HOST:PORT, such as node0:29500 or [fd00::1]:29500";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let port = port.parse().ok().filter(|&port| port != 0);
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(inner) => inner,
        // In an IPv6 address without brackets, the last part would be read as the port.
        None if host.contains(':') => return Err(expected.into()),
        None => host,
    };
    match port {
        Some(port) if !host.is_empty() && !host.contains(['/', ' ']) => Ok((host.to_owned(), port)),
        _ => Err(expected.into()),
    }
}
