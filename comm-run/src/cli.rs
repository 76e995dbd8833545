//! The command line.

use std::ffi::OsString;
use std::time::Duration;

use clap::Parser;

const EXAMPLES: &str = "\
Examples:
  comm-run -n 4 -- ./solver input.toml       four ranks
  comm-run -n auto -- python3 train.py       one rank per core
  comm-run -n 2 --timeout 60 -- ./test       two ranks, one minute at most

Every rank finds COBRE_COMM_BACKEND, COBRE_SHM_NAME, COBRE_SHM_RANK and COBRE_SHM_SIZE
in its environment, and RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE as under torchrun.
Its standard input is empty.

When a rank fails, the others get half a second to report it; then they are ended, with
everything they started.

Exit code:
  0      every rank exited with 0
  N      the code of the rank that failed first; 128 + signal if a signal killed it (137: SIGKILL)
  124    the timeout struck
  130    Ctrl-C (129 SIGHUP, 143 SIGTERM)
  141    nobody reads the output any more
  125    comm-run itself could not go on
  126    the program cannot be executed
  127    the program was not found
  2      wrong usage";

/// Starts N ranks of a program on this machine and watches over them.
#[derive(Debug, Parser)]
#[command(
    name = "comm-run",
    version,
    after_help = EXAMPLES,
    override_usage = "comm-run -n <N> [--timeout <SECONDS>] -- <PROGRAM> [ARGS]..."
)]
struct Arguments {
    /// How many ranks to start: a number, or `auto` for one per core.
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = ranks)]
    ranks: usize,

    /// End the job after this many seconds (fractions allowed, 0 means never).
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,

    /// The program and its arguments.
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    command: Vec<OsString>,
}

/// What the user wants.
#[derive(Debug, PartialEq)]
pub(crate) struct Options {
    pub(crate) ranks: usize,
    pub(crate) timeout: Option<Duration>,
    pub(crate) program: OsString,
    pub(crate) args: Vec<OsString>,
}

/// Reads the command line. Prints help or what is wrong with it, and exits (2 if wrong).
pub(crate) fn parse() -> Options {
    options(Arguments::parse())
}

fn options(arguments: Arguments) -> Options {
    let mut command = arguments.command.into_iter();
    Options {
        ranks: arguments.ranks,
        timeout: arguments.timeout.filter(|timeout| !timeout.is_zero()),
        // Present: the argument is required.
        program: command.next().unwrap_or_default(),
        args: command.collect(),
    }
}

fn ranks(text: &str) -> Result<usize, String> {
    if text == "auto" {
        return std::thread::available_parallelism()
            .map(std::num::NonZero::get)
            .map_err(|error| format!("cannot count the cores: {error}"));
    }
    match text.parse() {
        Ok(0) => Err("a job needs at least one rank".into()),
        Ok(ranks) => Ok(ranks),
        Err(_) => Err("expected a number of ranks, or `auto`".into()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text
        .parse()
        .map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "expected a number of seconds, 0 or more".into())
}

#[cfg(test)]
mod tests {
    use super::{Arguments, Options, options};
    use clap::{CommandFactory, Parser};
    use std::time::Duration;

    fn parse(line: &str) -> Option<Options> {
        Arguments::try_parse_from(line.split(' ')).ok().map(options)
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_programs_own_options_are_left_to_it() {
        for line in [
            "comm-run -n 2 -- prog -n 3 --timeout 4",
            "comm-run -n 2 prog -n 3 --timeout 4",
        ] {
            let options = parse(line).unwrap();
            assert_eq!((options.ranks, options.timeout), (2, None), "{line}");
            assert_eq!(options.program, "prog");
            assert_eq!(options.args, ["-n", "3", "--timeout", "4"]);
        }
    }

    #[test]
    fn times_may_be_fractions_and_zero_is_for_ever() {
        let timeout =
            |text: &str| parse(&format!("comm-run -n 1 --timeout {text} -- x")).map(|o| o.timeout);
        assert_eq!(timeout("1.5"), Some(Some(Duration::from_millis(1500))));
        assert_eq!(timeout("0"), Some(None));
        for wrong in ["-1", "x", "nan", "inf", ""] {
            assert_eq!(timeout(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn wrong_usage_is_refused() {
        for line in [
            "comm-run",
            "comm-run -n 2",
            "comm-run -n 2 --",
            "comm-run -n 0 -- x",
            "comm-run -n x -- x",
            "comm-run -n -1 -- x",
            "comm-run -- x",
            "comm-run --what -n 2 -- x",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
        assert!(parse("comm-run -n auto -- x").is_some_and(|options| options.ranks > 0));
    }
}
