//! `--dry-run`: prints what a job would start, quoted for a shell.

use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;

use comm_run::RankPlan;

/// Prints the command line and the variables of each rank.
pub(crate) fn print(plans: &[RankPlan], out: &mut impl Write) -> io::Result<()> {
    for plan in plans {
        match plan.processor {
            Some(processor) => writeln!(out, "rank {}, on processor {processor}:", plan.rank)?,
            None => writeln!(out, "rank {}:", plan.rank)?,
        }
        for (name, value) in &plan.variables {
            print_variable(name, value, out)?;
        }
        print_command(&plan.command, out)?;
    }
    // The same for every rank.
    if let Some(plan) = plans.first().filter(|plan| !plan.cleared.is_empty()) {
        let names: Vec<_> = plan.cleared.iter().map(|name| name.display()).collect();
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        writeln!(out, "not passed on: {}", names.join(", "))?;
    }
    Ok(())
}

/// Prints one command line and its variables.
pub(crate) fn print_one<'a>(
    variables: impl IntoIterator<Item = (&'a OsStr, &'a OsStr)>,
    command: &[OsString],
    out: &mut impl Write,
) -> io::Result<()> {
    for (name, value) in variables {
        print_variable(name, value, out)?;
    }
    print_command(command, out)
}

fn print_variable(name: &OsStr, value: &OsStr, out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"  ")?;
    out.write_all(name.as_bytes())?;
    out.write_all(b"=")?;
    out.write_all(&quoted(value))?;
    out.write_all(b"\n")
}

fn print_command(command: &[OsString], out: &mut impl Write) -> io::Result<()> {
    let words: Vec<_> = command.iter().map(|word| quoted(word)).collect();
    out.write_all(b"  ")?;
    out.write_all(&words.join(&b' '))?;
    out.write_all(b"\n")
}

/// Quotes a word if a shell would split or change it; its bytes stay the same.
pub(crate) fn quoted(word: &OsStr) -> Vec<u8> {
    let word = word.as_bytes();
    // A word with a zero byte cannot be quoted, and cannot be an argument or a variable either.
    shlex::bytes::try_quote(word).map_or_else(|_| word.to_vec(), Into::into)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    use super::quoted;

    #[test]
    fn words_survive_a_shell() {
        for (word, expected) in [
            ("plain-1.0/x:y", "plain-1.0/x:y"),
            ("--x=y", "'--x=y'"),
            ("", "''"),
            ("two words", "'two words'"),
            ("it's", "\"it's\""),
            ("$HOME", "'$HOME'"),
            ("(redacted)", "'(redacted)'"),
        ] {
            assert_eq!(quoted(word.as_ref()), expected.as_bytes());
        }
        let bytes = OsStr::from_bytes(b"not \xff text");
        assert_eq!(quoted(bytes), b"'not \xff text'");
    }
}
