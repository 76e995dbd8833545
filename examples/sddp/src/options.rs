//! The options of the command line.

use std::path::PathBuf;

use clap::Parser;
use clap::builder::RangedU64ValueParser;
use clap::error::ErrorKind;

use super::model::Header;

/// Plans the dispatch of hydro and thermal plants by stochastic dual dynamic programming.
///
/// The same options give the same policy, bit for bit, on every backend, with any number of ranks and threads.
#[derive(Debug, Clone, Parser)]
#[command(name = "sddp")]
pub(crate) struct Options {
    /// Number of months to plan
    #[arg(long, default_value_t = 24, value_parser = range(2, 600))]
    stages: u64,
    /// Number of hydro plants, four to a river
    #[arg(long, default_value_t = 4, value_parser = range(1, 200))]
    plants: u64,
    /// Number of possible inflows in each stage
    #[arg(long, default_value_t = 10, value_parser = range(1, 100_000))]
    openings: u64,
    /// Number of paths through the stages per iteration, and of new cuts per stage
    #[arg(long, default_value_t = 16, value_parser = range(1, 100_000))]
    scenarios: u64,
    /// Maximum number of iterations
    #[arg(long, default_value_t = 30, value_parser = range(0, 1_000_000))]
    pub(crate) iterations: u64,
    /// Stop when the lower bound has grown by less than this fraction of itself in five iterations
    #[arg(long, default_value_t = 1e-4, value_parser = fraction)]
    pub(crate) tolerance: f64,
    /// Seed of the case: another number generates another case
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Percentage of the demand that may go unserved
    #[arg(long, default_value_t = 100.0, allow_negative_numbers = true, value_parser = percent)]
    deficit_limit: f64,
    /// Threads per rank
    #[arg(long, default_value_t = 1, value_parser = range(1, 256))]
    threads: u64,
    /// Write the policy to FILE after every iteration; a job that `comm-run --max-restarts` restarts continues from it
    #[arg(long, value_name = "FILE")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Continue from the checkpoint
    #[arg(long, requires = "checkpoint")]
    pub(crate) resume: bool,
    /// Draw the bounds to FILE, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) plot: Option<PathBuf>,
    /// Make the solver of this rank fail, to see the effect on the others
    #[arg(long, value_name = "RANK", hide = true)]
    pub(crate) inject_error: Option<usize>,
}

/// The largest tree of inflows, in numbers: 4 GiB.
const MOST_INFLOWS: u64 = 1 << 29;

fn range(low: u64, high: u64) -> RangedU64ValueParser {
    RangedU64ValueParser::new().range(low..=high)
}

fn percent(argument: &str) -> Result<f64, String> {
    bounded(argument, 100.0)
}

fn fraction(argument: &str) -> Result<f64, String> {
    bounded(argument, 1.0)
}

fn bounded(argument: &str, high: f64) -> Result<f64, String> {
    let number: f64 = argument.parse().map_err(|why| format!("{why}"))?;
    if (0.0..=high).contains(&number) {
        Ok(number)
    } else {
        Err(format!("{argument} is not in 0..={high}"))
    }
}

impl Options {
    /// Reads the options. If they are invalid, prints why and ends the process with exit code 2.
    pub(crate) fn read() -> Self {
        let options = Self::parse();
        let inflows = options.stages * options.plants * options.openings;
        if inflows > MOST_INFLOWS {
            let message = format!(
                "{} stages with {} openings for {} plants are {inflows} inflows, more than {MOST_INFLOWS}\n",
                options.stages, options.openings, options.plants
            );
            clap::Error::raw(ErrorKind::ValueValidation, message).exit();
        }
        options
    }

    pub(crate) fn threads(&self) -> usize {
        usize::try_from(self.threads).unwrap_or(1)
    }

    /// Returns the parameters from which the case is generated.
    pub(crate) fn header(&self) -> Header {
        Header {
            seed: self.seed,
            stages: self.stages,
            plants: self.plants,
            thermals: 2 + self.plants / 2,
            openings: self.openings,
            scenarios: self.scenarios,
            deficit_cost: 1000.0,
            deficit_limit: self.deficit_limit / 100.0,
            spill_cost: 0.01,
        }
    }
}
