//! The arguments of the driver, beside those of every test.

use clap::builder::RangedU64ValueParser;
use libtest_mimic::Arguments;

/// Runs the conformance suite on a backend.
#[derive(Debug, Default, Clone, clap::Parser)]
pub(crate) struct Options {
    /// Print a table of clauses, cases, worlds, times and results
    #[arg(long)]
    pub(crate) table: bool,
    /// Run worlds of N ranks instead of 1, 2, 3, 4 and 8; may be repeated
    #[arg(long = "world", value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) worlds: Vec<usize>,
    /// Run the cases whose name contains PATTERN
    #[arg(long, value_name = "PATTERN")]
    pub(crate) case: Option<String>,
    /// Run N random programs per job
    #[arg(long = "random", value_name = "N")]
    pub(crate) programs: Option<usize>,
    /// Draw the random programs from SEED on
    #[arg(long, value_name = "SEED")]
    pub(crate) seed: Option<u64>,
    /// Also run calls of more than 4 GiB, where there is memory for them
    #[arg(long)]
    pub(crate) big: bool,
    #[command(flatten)]
    pub(crate) tests: Arguments,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(["conformance"].into_iter().chain(line.split_whitespace()))
    }

    #[test]
    fn own_arguments_stand_beside_those_of_every_test() {
        let options = parse("--nocapture --world 3 --world=8 --case fold x").unwrap();
        assert_eq!(options.worlds, [3, 8]);
        assert_eq!(options.case.as_deref(), Some("fold"));
        assert!(options.tests.nocapture);
        assert_eq!(options.tests.filter.as_deref(), Some("x"));
    }

    #[test]
    fn random_programs_take_a_count_and_a_seed() {
        let options = parse("--random 10000 --seed 18446744073709551615").unwrap();
        assert_eq!(
            (options.programs, options.seed),
            (Some(10_000), Some(u64::MAX))
        );
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in [
            "--world 0",
            "--world x",
            "--world -1",
            "--seed",
            "--random one",
            "--no-such-thing",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
