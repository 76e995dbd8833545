//! The single place where a test reports that it did not run.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

/// The variable that names the file in which `cargo xtask test` collects the tests that did not run.
const FILE: &str = "COMM_NOT_RUN";

/// Reports that the test of this thread did not run, and why.
///
/// A test returns right afterwards. The line goes to the standard error of the process, bypassing the test
/// runner, which swallows the output of passing tests, and to the file that `COMM_NOT_RUN` names, for a
/// summary of many processes.
///
/// # Panics
///
/// If that file cannot be written: a skipped test must not look like a passed one.
pub fn not_run(reason: impl std::fmt::Display) {
    let line = line(&test(), &reason.to_string());
    // The line may go unread; the file below is what counts.
    let _ = io::stderr().write_all(format!("not run: {line}").as_bytes());
    if let Some(path) = std::env::var_os(FILE)
        && let Err(error) = append(path.as_ref(), &line)
    {
        panic!("{FILE} is {}: {error}", path.display());
    }
}

/// Writes the line in one operation, so that lines of several processes do not mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    let mut file = File::options().append(true).create(true).open(path)?;
    file.write_all(line.as_bytes())
}

/// Returns package, binary and name of the test that this thread runs.
fn test() -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_default();
    let binary = std::env::current_exe().unwrap_or_default();
    let binary = binary.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo appends a hash.
    let binary = binary.rsplit_once('-').map_or(&*binary, |(name, _)| name);
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("unnamed");
    [&package, binary, name].join(" ").trim_start().to_owned()
}

/// Returns the test and the reason on one line.
fn line(test: &str, reason: &str) -> String {
    let reason: Vec<&str> = reason.split_whitespace().collect();
    format!("{test}: {}\n", reason.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_of_several_lines_is_one_line() {
        let reason = "unshare: unshare failed:\n\tOperation not permitted\n";
        let expected = "tcp a::b: unshare: unshare failed: Operation not permitted\n";
        assert_eq!(line("tcp a::b", reason), expected);
    }

    #[test]
    fn a_test_is_named_with_its_package_and_binary() {
        let expected = "not_run::tests::a_test_is_named_with_its_package_and_binary";
        assert_eq!(test(), format!("comm-testing comm_testing {expected}"));
    }

    #[test]
    fn lines_come_after_those_that_are_there() {
        let path = std::env::temp_dir().join(format!("comm-not-run-{}", std::process::id()));
        append(&path, &line("one", "because")).unwrap();
        append(&path, &line("two", "because")).unwrap();
        let found = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found, "one: because\ntwo: because\n");
    }
}
