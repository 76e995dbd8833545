//! The manual page: everything that the help has, and nothing that roff stumbles over.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod common;

use std::process::{Command, Stdio};

use common::{Folder, Starter};

/// Returns the page as a person reads it, on lines of any length, and what the formatter complains about.
fn formatted(page: &str) -> Option<(String, String)> {
    let folder = Folder::new();
    let file = folder.join("comm-run.1");
    std::fs::write(&file, page).unwrap();
    let mut man = Command::new("man");
    man.args(["--warnings", "-E", "UTF-8", "-l"]).arg(&file);
    man.env("MANWIDTH", "1000")
        .env("MANPAGER", "cat")
        .stdin(Stdio::null());
    let output = man.output().ok()?;
    let text = String::from_utf8(output.stdout).unwrap();
    Some((text, String::from_utf8(output.stderr).unwrap())).filter(|(text, _)| !text.is_empty())
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
    let Some((text, complaints)) = formatted(&page) else {
        println!("not run: there is no man here that formats a page");
        return;
    };
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
