//! The arguments of chaos.

use std::time::Duration;

use clap::builder::RangedU64ValueParser;

use super::fault::Fault;

/// Runs random programs in real processes and injects faults.
#[derive(Debug, Clone, PartialEq, clap::Parser)]
pub(super) struct Options {
    /// Run chaos instead of the suite
    #[arg(long, required = true)]
    chaos: bool,
    /// Run worlds of N ranks, in turn; may be repeated [default: 2, 3, 4 and 8, now and then 32 or 64]
    #[arg(long = "world", value_name = "N",
        value_parser = RangedU64ValueParser::<usize>::new().range(2..))]
    worlds: Vec<usize>,
    /// Draw the rounds from SEED on
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(super) seed: u64,
    /// Run N rounds [default: 50, unless --minutes is given]
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Run until M minutes have passed; may be a fraction
    #[arg(long = "minutes", value_name = "M", value_parser = minutes)]
    time: Option<Duration>,
    /// Inject one kind of fault only
    #[arg(long, value_name = "KIND")]
    pub(super) fault: Option<Fault>,
    /// Go on after a round that failed
    #[arg(long)]
    pub(super) keep_going: bool,
    /// What cargo adds for tests that are silent by themselves
    #[arg(long, hide = true)]
    quiet: bool,
}

/// The default number of rounds.
const ROUNDS: usize = 50;

fn minutes(text: &str) -> Result<Duration, String> {
    let minutes: f64 = text.parse().map_err(|reason| format!("{reason}"))?;
    Duration::try_from_secs_f64(minutes * 60.0).map_err(|reason| reason.to_string())
}

/// The default worlds, in turn.
const WORLDS: [usize; 4] = [2, 3, 4, 8];

/// The large worlds, in turn, and the number of rounds from one to the next.
const LARGE: ([usize; 2], usize) = ([32, 64], 25);

impl Options {
    /// Returns how many ranks the round of this number has.
    pub(super) fn world(&self, round: usize) -> usize {
        let (large, every) = LARGE;
        if !self.worlds.is_empty() {
            self.worlds[round % self.worlds.len()]
        } else if round % every == every - 1 {
            large[round / every % large.len()]
        } else {
            WORLDS[round % WORLDS.len()]
        }
    }

    /// Returns whether `rounds` in `time` are enough.
    pub(super) fn enough(&self, rounds: usize, time: Duration) -> bool {
        let most = self.rounds.or(self.time.is_none().then_some(ROUNDS));
        most.is_some_and(|most| rounds >= most) || self.time.is_some_and(|most| time >= most)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        Options::try_parse_from(
            ["chaos", "--chaos"]
                .into_iter()
                .chain(line.split_whitespace()),
        )
    }

    #[test]
    fn without_arguments_it_ends() {
        let options = parse("").unwrap();
        let worlds: Vec<usize> = (0..ROUNDS).map(|round| options.world(round)).collect();
        assert_eq!(worlds[..6], [2, 3, 4, 8, 2, 3]);
        assert_eq!((worlds[24], worlds[49]), (32, 64));
        assert!(!options.enough(ROUNDS - 1, Duration::MAX));
        assert!(options.enough(ROUNDS, Duration::ZERO));
    }

    #[test]
    fn minutes_end_it_and_may_be_fractions() {
        let options = parse("--minutes 0.5 --world 8 --seed 9 --fault stop").unwrap();
        assert!(!options.enough(usize::MAX, Duration::from_secs(29)));
        assert!(options.enough(0, Duration::from_secs(30)));
        assert_eq!((options.world(24), options.seed), (8, 9));
        assert_eq!(options.fault, Some(Fault::Stop));
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in [
            "--world 1",
            "--seed",
            "--minutes -1",
            "--minutes x",
            "--table",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
        let unknown = parse("--fault x").unwrap_err().to_string();
        assert!(unknown.contains("kill-one"), "{unknown}");
    }
}
