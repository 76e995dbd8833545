//! The command line.

mod advice;
mod manual;
mod variable;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use comm_factory::{Name, Topology};
use comm_run::{Backend, Node, gives_a_place};
pub(crate) use variable::Variable;

/// More ranks than this on one machine are a typing mistake.
const MOST_RANKS: usize = 4096;
/// More than this do not fit into one segment: `ShmConfig` refuses them.
const MOST_SHM_RANKS: usize = 1024;

const EXAMPLES: &str = "\
Examples:
  comm-run -n 4 -- ./solver input.toml       four ranks
  comm-run -n auto -- python3 train.py       one rank per core
  comm-run -n 2 --timeout 60 -- ./test       two ranks, one minute at most
  comm-run -n 4 --backend tcp -- ./solver    over sockets instead of shared memory
  comm-run -n 4 --backend mpi -- ./solver    handed over to the mpiexec in PATH
  comm-run -n 4 --log-dir logs -- ./solver   also to logs/rank-0.out, logs/rank-0.err, ..
  comm-run -n 4 --events log -- ./solver     the job's life to log, as lines of JSON
  comm-run -n 4 --bind core -- ./solver      each rank on a processor of its own
  comm-run -n 4 --max-restarts 3 -- ./solver start again when a rank fails
  comm-run -n 4 --env TRACE=1 -- ./solver    with a variable set for every rank
  comm-run -n 4 --dry-run -- ./solver        show what would be started
  comm-run explain                           which backend a program would take here
  comm-run doctor                            what on this machine may hinder a job
  comm-run completions bash                  print completions for a shell
  comm-run manual                            print the manual page

Two machines, four ranks on each, with the same secret file on both:
  comm-run -n 4 --nnodes 2 --node-rank 0 --coordinator host0:29500 --secret-file key -- ./solver
  comm-run -n 4 --nnodes 2 --node-rank 1 --coordinator host0:29500 --secret-file key -- ./solver

Every rank finds its place in the job in its environment: COBRE_COMM_BACKEND with COBRE_SHM_*
or COBRE_TCP_*, and as under torchrun RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE,
MASTER_ADDR and MASTER_PORT. Its standard input is empty.

When a rank fails, the others have half a second to report it. Then comm-run ends them, and
everything they started. Ctrl-C and SIGTERM are passed on, and the ranks may end by themselves:
10 s after the first Ctrl-C, 20 s after SIGTERM (--grace). The second Ctrl-C kills.

Exit code:
  0      every rank exited with 0
  N      the code of the rank that is the cause; 128 + signal if a signal killed it (137: SIGKILL);
         after Ctrl-C or SIGTERM the code of the ranks, if all of them ended by themselves
  124    the job timed out (--timeout)
  130    Ctrl-C (129 SIGHUP, 131 SIGQUIT, 143 SIGTERM)
  141    the output or a log cannot be written any more
  125    comm-run itself failed: too few descriptors, say
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
struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,

    /// Number of ranks to start, or `auto` for one per core.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = count, required = true, allow_negative_numbers = true)]
    ranks: Option<Count>,

    /// How the ranks reach each other [default: shm, or tcp with --nnodes].
    #[arg(long, value_name = "BACKEND")]
    backend: Option<BackendName>,

    /// End the job after this many seconds; 0.5 is half a second, 0 means never.
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Kill the ranks so many seconds after a SIGTERM or a Ctrl-C that they have not ended upon [default: 20 and 10].
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    grace: Option<Duration>,

    /// Start the job again when a rank fails, at most N times.
    #[arg(long, value_name = "N", value_parser = number, allow_negative_numbers = true)]
    max_restarts: Option<usize>,

    /// Also write the output of each rank to DIR/rank-N.out and DIR/rank-N.err.
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,

    /// Append the life of the job to FILE, as lines of JSON: started, cause, ended.
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,

    /// What to bind each rank to [default: none].
    #[arg(long, value_name = "TO")]
    bind: Option<Bind>,

    /// Set a variable for every rank; may be given several times.
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable::parser())]
    env: Vec<Variable>,

    /// Compare what the ranks call on MPI, too, and name a rank that does not come; shm and tcp always do.
    #[arg(long)]
    check: bool,

    /// Start a PROGRAM whose name ends in .py with this interpreter.
    #[arg(long, value_name = "INTERPRETER")]
    python: Option<OsString>,

    /// Say which ranks start where, and what connects them.
    #[arg(short, long)]
    verbose: bool,

    /// Print the variables and the command line of each rank, and start nothing.
    #[arg(long)]
    dry_run: bool,

    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM")]
    command: Vec<OsString>,

    // Last: its heading would hold whatever follows.
    #[command(flatten)]
    machines: Machines,
}

#[derive(Debug, Clone, Copy, Subcommand)]
enum Action {
    /// Show which backend a program would take here, and which variable decides.
    #[command(
        after_help = "Exit code: 0, or 1 if a program would get an error instead of a communicator."
    )]
    Explain,
    /// Check shared memory, limits, processors, MPI, ports and clock of this machine.
    #[command(after_help = "Exit code: 0, or 1 if no job can run here.")]
    Doctor {
        /// First remove the segments that killed jobs of this user left in shared memory.
        #[arg(long)]
        clean: bool,
    },
    /// Print a script with which a shell completes the options.
    #[command(
        after_help = "For example: comm-run completions bash > ~/.local/share/bash-completion/completions/comm-run"
    )]
    Completions {
        /// The shell that reads it.
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
struct Machines {
    /// Number of machines in the job, each with N ranks.
    #[arg(long, value_name = "M", value_parser = number, allow_negative_numbers = true, requires_all = ["node_rank", "coordinator", "secret_file"])]
    nnodes: Option<usize>,

    /// Number of this machine, counted from 0. Rank 0 runs on machine 0.
    #[arg(long, value_name = "K", value_parser = number, allow_negative_numbers = true, requires = "nnodes")]
    node_rank: Option<usize>,

    /// Where rank 0 listens: a name or address of machine 0 that the others reach, and a free port.
    #[arg(long, value_name = "HOST:PORT", requires = "nnodes", value_parser = address)]
    coordinator: Option<(String, u16)>,

    /// A file with a long random string, the same on every machine and readable by you alone.
    #[arg(long, value_name = "FILE", requires = "nnodes")]
    secret_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BackendName {
    /// Shared memory, on one machine.
    Shm,
    /// Sockets.
    Tcp,
    /// An MPI library; the mpiexec in PATH starts the ranks.
    Mpi,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Bind {
    /// Nothing, the scheduler chooses: right for ranks with several threads.
    None,
    /// A processor of its own: steadier and faster for ranks with a single thread.
    Core,
}

#[derive(Debug, Clone, Copy)]
enum Count {
    Auto(usize),
    Exactly(usize),
}

/// What the user asks for.
#[derive(Debug, PartialEq)]
pub(crate) enum Request {
    /// Start a job.
    Run(Options),
    /// Hand a job over to mpiexec.
    Mpi(Handover),
    /// Show which backend a program would take.
    Explain,
    /// Check the machine, after removing what killed jobs left if that is asked for.
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
    pub(crate) command: Vec<OsString>,
}

/// A job for comm-run itself.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) ranks: usize,
    pub(crate) backend: Backend,
    pub(crate) timeout: Option<Duration>,
    /// How long the ranks may take to end after a signal, where it is not as usual.
    pub(crate) grace: Option<Duration>,
    pub(crate) max_restarts: usize,
    pub(crate) log_dir: Option<PathBuf>,
    pub(crate) events: Option<PathBuf>,
    pub(crate) verbose: bool,
    pub(crate) dry_run: bool,
    /// Whether each rank gets a processor of its own.
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

    /// Describes the job, as far as this machine knows it.
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

/// Reads the command line. Prints help or what is wrong with it, and exits (2 if wrong).
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

/// Returns the script with which a shell completes the options.
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
    let command = interpreted(arguments.python, arguments.command);
    // Present: the argument is required.
    let count = arguments.ranks.unwrap_or(Count::Exactly(1));
    let node = node(count, &arguments.machines)?;
    let (Count::Auto(ranks) | Count::Exactly(ranks)) = count;
    let backend = match (arguments.backend, &node) {
        (Some(BackendName::Mpi), node) => {
            let (log_dir, timeout) = (arguments.log_dir.is_some(), arguments.timeout.is_some());
            let ends = arguments.grace.is_some() || arguments.max_restarts.is_some();
            let ends = ends || arguments.events.is_some();
            if node.is_some() || log_dir || timeout || ends || arguments.bind.is_some() {
                return Err(wrong(
                    "--backend mpi hands over to mpiexec, so --timeout, --grace, --max-restarts, --log-dir, --events, --bind and --nnodes \
                     cannot be used with it; \
                     if you need something like them, start mpiexec yourself with its own options",
                ));
            }
            variable::check(&arguments.env, crate::mpi::is_own).map_err(|text| wrong(&text))?;
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
            "{ranks} ranks are too many for shared memory, which holds {MOST_SHM_RANKS}; use --backend tcp"
        )));
    }
    let max_restarts = arguments.max_restarts.unwrap_or(0);
    if max_restarts > 0 && node.is_some() {
        return Err(wrong(
            "--max-restarts works on one machine only: the others would not know that this one starts again",
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
        // Present: the argument is required.
        program: command.next().unwrap_or_default(),
        args: command.collect(),
    }))
}

/// Puts the interpreter in front of a script for it.
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
        // None of them: each requires the others.
        return Ok(None);
    };
    let ranks = match count {
        Count::Exactly(ranks) => ranks,
        Count::Auto(_) => {
            return Err(wrong(
                "-n auto may differ between machines; give a number with --nnodes, the same on each",
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
    // Zero means never, and what rounds to it does not.
    let least = Duration::from_nanos(u64::from(seconds > 0.0));
    Ok(time.max(least))
}

fn address(text: &str) -> Result<(String, u16), String> {
    let expected = "expected HOST:PORT, such as node0:29500 or [fd00::1]:29500";
    let (host, port) = text.rsplit_once(':').ok_or(expected)?;
    let port = port.parse().ok().filter(|&port| port != 0);
    let bare = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let host = match bare {
        Some(inner) => inner,
        // An address of IPv6 without brackets: its last part would be taken for the port.
        None if host.contains(':') => return Err(expected.into()),
        None => host,
    };
    match port {
        Some(port) if !host.is_empty() && !host.contains(['/', ' ']) => Ok((host.to_owned(), port)),
        _ => Err(expected.into()),
    }
}

#[cfg(test)]
mod tests;
