//! The manual page contains everything that the help has, and nothing that roff rejects.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::process::{Command, Stdio};

use common::{Folder, Starter};

/// Returns the page as a person reads it, on lines of any length, and the warnings of the formatter.
fn formatted(page: &str) -> Result<(String, String), String> {
    let folder = Folder::new();
    let file = folder.join("comm-run.1");
    std::fs::write(&file, page).unwrap();
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&file);
    man.env("MANWIDTH", "1000")
        .env("MANPAGER", "cat")
        .stdin(Stdio::null());
    let output = man.output().map_err(|error| format!("man: {error}"))?;
    let [text, complaints] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    Ok((text, complaints))
}

fn printed(args: &[&str]) -> Vec<String> {
    let ended = Starter::new(args).end();
    assert_eq!(ended.code(), 0, "{ended:?}");
    ended.stdout
}

#[test]
fn the_manual_has_every_option_example_and_exit_code_of_the_help() {
    let page = printed(&["manual"]).join("\n") + "\n";
    let help = printed(&["--help"]);
    let plain = page.replace("\\-", "-");
    for option in help
        .iter()
        .filter_map(|line| line.trim_start().strip_prefix("--"))
    {
        let option = option.split([' ', ',']).next().unwrap();
        assert!(plain.contains(&format!("--{option}")), "{option}");
    }
    for section in [
        "SYNOPSIS",
        "OPTIONS",
        "COMMANDS",
        "EXAMPLES",
        "ENVIRONMENT",
        "EXIT STATUS",
    ] {
        assert!(
            plain.contains(&format!(".SH {section}"))
                || plain.contains(&format!(".SH \"{section}\"")),
            "{section}"
        );
    }
    // Some systems have a `man` that formats nothing.
    match formatted(".TH TINY 1\n.SH NAME\ntiny \\- a page\n") {
        Ok((text, _)) if text.contains("a page") => {}
        other => return comm_testing::not_run(format_args!("man formats no page: {other:?}")),
    }
    let (text, complaints) = formatted(&page).unwrap();
    assert_eq!(complaints, "");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = words(&text);
    let (_, notes) = help.split_at(help.iter().position(|line| line == "Examples:").unwrap());
    for line in notes
        .iter()
        .filter(|line| !line.ends_with(':') && !line.is_empty())
    {
        assert!(text.contains(&words(line)), "{line}");
    }
}
