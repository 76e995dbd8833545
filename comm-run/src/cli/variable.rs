//! `--env NAME=VALUE`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::builder::{OsStringValueParser, TypedValueParser};

/// A variable for every rank.
pub(crate) type Variable = (OsString, OsString);

/// Returns the parser for NAME=VALUE; the value may be any bytes.
pub(super) fn parser() -> impl TypedValueParser<Value = Variable> {
    OsStringValueParser::new().try_map(variable)
}

fn variable(word: OsString) -> Result<Variable, String> {
    let expected = "expected NAME=VALUE, where NAME consists of letters, digits and _ and does not start with a digit";
    let word = word.into_vec();
    let Some(equals) = word.iter().position(|&byte| byte == b'=') else {
        return Err(expected.into());
    };
    let (name, value) = (&word[..equals], &word[equals + 1..]);
    let fits = |&byte: &u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name[0].is_ascii_digit() || !name.iter().all(fits) {
        return Err(expected.into());
    }
    let text = |bytes: &[u8]| OsStr::from_bytes(bytes).to_owned();
    Ok((text(name), text(value)))
}

/// Rejects variables that would change a rank's place in the job. `is_own` returns whether `comm-run` sets or clears a
/// variable itself.
pub(super) fn check(variables: &[Variable], is_own: impl Fn(&OsStr) -> bool) -> Result<(), String> {
    match variables.iter().find(|(name, _)| is_own(name)) {
        Some((name, _)) => Err(format!(
            "--env {}: comm-run sets or clears this variable itself, because it tells a rank its place in a job; \
            leave it out (--dry-run shows what the ranks get)",
            name.display()
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::variable;

    #[test]
    fn names_and_values_are_told_apart_and_wrong_names_refused() {
        for (word, name, value) in [
            ("A=1", "A", "1"),
            ("_b=x=y z", "_b", "x=y z"),
            ("A=", "A", ""),
        ] {
            assert_eq!(variable(word.into()), Ok((name.into(), value.into())));
        }
        for wrong in ["A", "=1", "", "1A=1", "A B=1", "A-B=1", "\u{e9}=1"] {
            assert!(variable(wrong.into()).is_err(), "{wrong}");
        }
    }
}
