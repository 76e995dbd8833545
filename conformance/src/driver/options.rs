//! The arguments of the driver that are not those of every test.

use std::ffi::OsString;

/// Says what to run.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) table: bool,
    pub(crate) worlds: Vec<usize>,
    pub(crate) case: Option<String>,
    pub(crate) programs: Option<usize>,
    pub(crate) seed: Option<u64>,
    pub(crate) big: bool,
}

impl Options {
    /// Takes its own arguments out and gives back the rest.
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<(Self, Vec<OsString>), String> {
        let mut options = Self::default();
        let mut rest = Vec::new();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let text = argument.to_string_lossy().into_owned();
            let (flag, inline) = match text.split_once('=') {
                Some((flag, value)) => (flag, Some(value.to_owned())),
                None => (text.as_str(), None),
            };
            let mut value = || {
                inline
                    .clone()
                    .or_else(|| arguments.next().map(|v| v.to_string_lossy().into_owned()))
                    .ok_or_else(|| format!("{flag} needs a value"))
            };
            match flag {
                "--table" => options.table = true,
                "--big" => options.big = true,
                "--world" => {
                    let world = number(flag, &value()?)?;
                    if world == 0 {
                        return Err("--world 0: a world has at least one rank".to_owned());
                    }
                    options.worlds.push(world);
                }
                "--case" => options.case = Some(value()?),
                "--random" => options.programs = Some(number(flag, &value()?)?),
                "--seed" => options.seed = Some(number(flag, &value()?)?),
                _ => rest.push(argument),
            }
        }
        Ok((options, rest))
    }
}

/// Reads the number behind a flag.
pub(crate) fn number<N: std::str::FromStr>(flag: &str, text: &str) -> Result<N, String>
where
    N::Err: std::fmt::Display,
{
    text.parse()
        .map_err(|reason| format!("{flag} {text}: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<(Options, Vec<OsString>), String> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn own_arguments_are_taken_and_others_left() {
        let (options, rest) = parse("--nocapture --world 3 --world=8 --case fold x").unwrap();
        assert_eq!(options.worlds, [3, 8]);
        assert_eq!(options.case.as_deref(), Some("fold"));
        assert_eq!(rest, ["--nocapture", "x"]);
    }

    #[test]
    fn random_programs_take_a_count_and_a_seed() {
        let (options, _) = parse("--random 10000 --seed 18446744073709551615").unwrap();
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
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
