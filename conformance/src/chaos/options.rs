//! The arguments of chaos.

use std::time::Duration;

use super::theme::Theme;
use crate::driver::number;

/// Says what to do, and for how long.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    pub(super) worlds: Vec<usize>,
    pub(super) seed: u64,
    pub(super) rounds: Option<usize>,
    pub(super) time: Option<Duration>,
    pub(super) theme: Option<Theme>,
    pub(super) keep_going: bool,
}

/// How many rounds there are unless told otherwise.
const ROUNDS: usize = 50;

impl Options {
    /// Reads the arguments; everything unknown is an error.
    pub(super) fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            worlds: Vec::new(),
            seed: 1,
            rounds: None,
            time: None,
            theme: None,
            keep_going: false,
        };
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{flag} needs a value"));
            match flag.as_str() {
                "--world" => options.worlds.push(world(&value()?)?),
                "--seed" => options.seed = number(&flag, &value()?)?,
                "--rounds" => options.rounds = Some(number(&flag, &value()?)?),
                "--minutes" => {
                    let minutes: f64 = number(&flag, &value()?)?;
                    let time = Duration::try_from_secs_f64(minutes * 60.0);
                    options.time = Some(time.map_err(|e| format!("--minutes {minutes}: {e}"))?);
                }
                "--violence" => options.theme = Some(Theme::parse(&value()?)?),
                "--keep-going" => options.keep_going = true,
                // What cargo adds for tests that are silent by themselves.
                "--quiet" => {}
                _ => return Err(format!("chaos knows no argument '{flag}'")),
            }
        }
        if options.worlds.is_empty() {
            options.worlds = vec![2, 3, 4];
        }
        if options.rounds.is_none() && options.time.is_none() {
            options.rounds = Some(ROUNDS);
        }
        Ok(options)
    }

    /// Tells whether `rounds` in `time` are enough.
    pub(super) fn enough(&self, rounds: usize, time: Duration) -> bool {
        self.rounds.is_some_and(|most| rounds >= most) || self.time.is_some_and(|most| time >= most)
    }
}

fn world(text: &str) -> Result<usize, String> {
    match number("--world", text)? {
        0 | 1 => Err(format!("--world {text}: chaos takes two ranks or more")),
        world => Ok(world),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn without_arguments_it_ends() {
        let options = parse("").unwrap();
        assert_eq!(options.worlds, [2, 3, 4]);
        assert!(!options.enough(ROUNDS - 1, Duration::MAX));
        assert!(options.enough(ROUNDS, Duration::ZERO));
    }

    #[test]
    fn minutes_end_it_and_may_be_fractions() {
        let options = parse("--minutes 0.5 --world 8 --seed 9 --violence stop").unwrap();
        assert!(!options.enough(usize::MAX, Duration::from_secs(29)));
        assert!(options.enough(0, Duration::from_secs(30)));
        assert_eq!((options.worlds, options.seed), (vec![8], 9));
        assert_eq!(options.theme, Some(Theme::Stop));
    }

    #[test]
    fn nonsense_is_an_error() {
        for line in [
            "--world 1",
            "--seed",
            "--minutes -1",
            "--minutes x",
            "--violence x",
            "--table",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
