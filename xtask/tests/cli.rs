//! Runs the program as a user does.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail loudly, like the tests"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn xtask(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_xtask"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Creates an empty directory.
fn repository(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if root.exists() {
        fs::remove_dir_all(&root).unwrap();
    }
    fs::create_dir_all(&root).unwrap();
    root
}

fn tidy(root: &Path) -> Output {
    xtask(&["tidy", "--root", root.to_str().unwrap()])
}

#[test]
fn no_arguments_print_help() {
    let output = xtask(&[]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    let words = [
        "Usage: cargo xtask",
        "test",
        "ci",
        "conformance",
        "tidy",
        "demo",
        "bench",
    ];
    for word in words {
        assert!(help.contains(word), "{word} is missing in:\n{help}");
    }
    assert!(!help.contains('\x1b'), "colours without a terminal");
}

#[test]
fn wrong_arguments_print_usage_and_exit_with_2() {
    let wrong: [&[&str]; 17] = [
        &["test", "no-such-step"],
        &["conformance"],
        &["conformance", "--backend", "no-such-backend"],
        &["conformance", "--backend", "local", "--world", "0"],
        &["conformance", "--backend", "local", "--world", "x"],
        &["conformance", "--backend", "local", "--seed", "-1"],
        &["bench", "--ranks", "0"],
        &["bench", "--seconds", "0"],
        &["bench", "--peer", "no-such-peer"],
        &["bench", "--no-peers", "--peer", "mpich"],
        &["bench", "--no-peers", "--fetch-peers"],
        &["bench", "--sweep", "--plot", "plot.svg"],
        &["no-such-command"],
        &["--no-such-flag"],
        &["tidy", "--no-such-flag"],
        &["demo", "extra"],
        &["tidy", "--root"],
    ];
    for arguments in wrong {
        let output = xtask(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        let message = text(&output.stderr);
        assert!(message.starts_with("error: "), "{arguments:?}: {message}");
        assert!(message.contains("--help"), "{arguments:?}: {message}");
    }
    assert!(text(&xtask(&["no-such-command"]).stderr).contains("Usage: cargo xtask"));
}

#[test]
fn a_root_that_is_no_directory_is_a_wrong_argument() {
    let output = xtask(&["tidy", "--root", "no/such/directory"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("not a directory"));
}

#[test]
fn conformance_without_a_case_is_a_wrong_argument() {
    let arguments = [
        "conformance",
        "--backend",
        "local",
        "--case",
        "no such case",
    ];
    let output = xtask(&arguments);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("no case has 'no such case' in its name"));
}

#[test]
fn conformance_prints_every_clause() {
    let output = xtask(&["conformance", "--backend", "local", "--case", "identity"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{table}");
    for clause in 1..=14 {
        assert!(
            table.contains(&format!("\nC{clause} ")),
            "C{clause} in:\n{table}"
        );
    }
}

#[test]
fn tidy_passes_a_clean_repository() {
    let root = repository("clean");
    fs::write(root.join("README.md"), "# Clean\n").unwrap();
    let output = tidy(&root);
    let printed = text(&output.stdout);
    assert!(printed.starts_with("commits: NOT RUN: there is no history here"));
    assert!(printed.ends_with(" 0 findings\n"));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn tidy_checks_the_subjects_of_commits_after_the_one_that_adds_the_check() {
    let root = repository("history");
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        let output = git.args(arguments).current_dir(&root).output().unwrap();
        assert!(output.status.success(), "{output:?}");
    };
    let commit = |subject: &str| git(&["commit", "--allow-empty", "--quiet", "-m", subject]);
    let long = "x".repeat(73);
    git(&["init", "--quiet"]);
    commit(&long);
    let said = text(&tidy(&root).stdout);
    assert!(
        said.starts_with("commits: NOT RUN: no commit adds"),
        "{said}"
    );
    fs::create_dir_all(root.join("xtask/src/tidy")).unwrap();
    fs::write(root.join("xtask/src/tidy/commits.rs"), "").unwrap();
    git(&["add", "."]);
    commit(&long);
    commit(&"x".repeat(72));
    assert_eq!(tidy(&root).status.code(), Some(0));
    commit(&long);
    let output = tidy(&root);
    let said = text(&output.stdout);
    assert_eq!(said.matches(": 73 characters: xxx").count(), 1, "{said}");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn tidy_names_file_and_line_of_planted_defects() {
    let root = repository("planted");
    fs::create_dir(root.join("src")).unwrap();
    fs::write(root.join("src/lib.rs"), "\n".repeat(501)).unwrap();
    let readme = "# Planted\n\nSee [the book](docs/book.md).\n";
    fs::write(root.join("README.md"), readme).unwrap();
    let output = tidy(&root);
    assert_eq!(output.status.code(), Some(1));
    let findings = text(&output.stdout);
    let expected = "README.md:3: the link docs/book.md leads nowhere\n\
        src/lib.rs:501: 501 lines: split it before 500\n";
    assert!(findings.contains(expected), "{findings}");
    assert_eq!(text(&output.stderr), "tidy: 2 findings\n");
}

#[test]
fn tidy_leaves_ignored_files_alone() {
    let root = repository("ignored");
    fs::write(root.join(".gitignore"), "/scratch.md\n").unwrap();
    fs::write(root.join("scratch.md"), "[gone](gone.md)\n").unwrap();
    assert_eq!(tidy(&root).status.code(), Some(0));
}

#[test]
fn tidy_of_nothing_fails() {
    let output = tidy(&repository("empty"));
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("no files to check"));
}
