//! Changes the code in small ways, one at a time, and lists the changes that no test notices.
//!
//! `cargo-mutants` makes the changes, in a copy of the workspace that stays below `target`, so that the next run compiles little. There are
//! thousands of changes, and a test run takes long: each run tries others, in a random order, for the given time.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{cargo, command, copy_tree, run, shown, workspace_root};
use crate::report::bold;
use crate::tools::CARGO_MUTANTS;

/// Change the code in small ways, and list the changes that no test notices.
///
/// A surviving mutant is a change that the tests of its package did not notice: a gap in the tests, or a change that makes no
/// difference. A person has to judge which.
#[derive(Debug, clap::Args)]
pub(crate) struct Mutants {
    /// Run for M minutes in all; may be a fraction
    #[arg(long, value_name = "M", default_value_t = 30.0)]
    minutes: f64,
    /// Change only this package; may be repeated
    #[arg(long, value_name = "NAME", value_parser = package_name)]
    package: Vec<String>,
}

/// The packages, with the tests of their mutants, and the tests of the mutants that survive those: arguments of `cargo test`. The quick tests
/// come first: most mutants need no others.
const PACKAGES: [(&str, &str, Option<&str>); 6] = [
    ("comm-api", "--lib --tests", None),
    ("comm-kit", "--lib --tests", None),
    ("comm-shm", "--lib", Some("--test conformance -- --world 3")),
    ("comm-tcp", "--lib", Some("--test conformance -- --world 3")),
    (
        "comm-factory",
        "--features shm,tcp --lib --test select",
        Some("--features shm,tcp --test conformance_shm -- --world 2"),
    ),
    (
        "comm-run",
        "--lib --bins",
        Some("--test blame --test exit_codes --test options --test output --test stop"),
    ),
];

/// How long the tests of one mutant may take.
const TEST_SECONDS: &str = "240";

fn package_name(argument: &str) -> Result<String, String> {
    let names = PACKAGES.map(|(name, ..)| name);
    if names.contains(&argument) {
        Ok(argument.to_owned())
    } else {
        Err(format!("the packages are {}", names.join(", ")))
    }
}

/// Tries mutants of all packages, in equal shares of the time, and lists the survivors; returns whether any could be tried.
pub(crate) fn run_all(arguments: &Mutants) -> bool {
    if let Err(advice) = CARGO_MUTANTS.obtain() {
        eprintln!("error: {advice}");
        return false;
    }
    let place = workspace_root().join("target/mutants");
    if let Err(error) = copy(&place) {
        eprintln!(
            "error: the workspace cannot be copied to {}: {error}",
            place.display()
        );
        return false;
    }
    let chosen = |name: &str| {
        arguments.package.is_empty() || arguments.package.iter().any(|chosen| chosen == name)
    };
    let packages: Vec<_> = PACKAGES
        .into_iter()
        .filter(|(name, ..)| chosen(name))
        .collect();
    let all = Duration::from_secs_f64(arguments.minutes.clamp(0.0, 1e4) * 60.0);
    let share = all / u32::try_from(packages.len()).unwrap_or(1).max(1);
    let mut sample = Sample::default();
    for (package, judge, second) in packages {
        let (first, rest) = if second.is_some() {
            (share / 2, share / 2)
        } else {
            (share, Duration::ZERO)
        };
        let found = attempt(&place, package, package, judge, first, &[]);
        let found = match second {
            Some(judge) if !found.lived.is_empty() => {
                let files = format!("{package}-again");
                found.then(attempt(&place, package, &files, judge, rest, &found.lived))
            }
            _ => found,
        };
        sample.packages.push(found);
    }
    println!("{}\n{sample}", bold("==> summary"));
    sample.packages.iter().any(|found| found.tried() > 0)
}

/// Copies the workspace without build artifacts.
fn copy(place: &Path) -> std::io::Result<()> {
    let root = workspace_root();
    let wanted = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !(name == ".git" || name == "target" || name.starts_with("target-"))
    };
    let tree = place.join("tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    copy_tree(&root, &tree, &wanted)
}

/// Tries mutants of one package, all of them or only these, and returns the findings; the files have another name for each set of tests.
fn attempt(
    place: &Path,
    package: &str,
    files: &str,
    judge: &str,
    time: Duration,
    only: &[String],
) -> Found {
    let mut mutants = prepare(place, package, files, judge, time);
    println!("{}", bold(&format!("==> {package}: {}", shown(&mutants))));
    for mutant in only {
        mutants.arg(format!("--re=^{}$", literal(mutant)));
    }
    mutants.args(["--"]).args(of_tests(judge));
    // However the run ends, its findings so far are in its files.
    run(&mut mutants);
    Found::read(package, &place.join(files))
}

/// Splits off the arguments that `cargo test` passes on to the tests, including the two dashes.
fn of_tests(judge: &str) -> impl Iterator<Item = &str> {
    judge.split(' ').skip_while(|word| *word != "--")
}

/// Returns the arguments of a judge that are for cargo.
fn of_cargo(judge: &str) -> impl Iterator<Item = &str> {
    judge.split(' ').take_while(|word| *word != "--")
}

/// Returns a regular expression that matches only this text.
fn literal(text: &str) -> String {
    let escape = |c: char| {
        let special = r"\.+*?()|[]{}^$#&-~".contains(c);
        [special.then_some('\\'), Some(c)].into_iter().flatten()
    };
    text.chars().flat_map(escape).collect()
}

/// Prepares the run for one package, for this long. On an interruption `cargo-mutants` writes its findings so far.
fn prepare(place: &Path, package: &str, files: &str, judge: &str, time: Duration) -> Command {
    let seconds = time.as_secs().max(1).to_string();
    let cargo = cargo(&[]).get_program().to_string_lossy().into_owned();
    let mut mutants = command(
        "timeout",
        &[
            "--signal=INT",
            "--kill-after=60",
            &seconds,
            &cargo,
            "mutants",
        ],
    );
    mutants
        .args([
            "--in-place",
            "--shuffle",
            "--baseline",
            "skip",
            "--no-times",
        ])
        .args(["--timeout", TEST_SECONDS, "--package", package])
        .arg("--output")
        .arg(place.join(files))
        // For the build, too, so that only the tests of this judge are built.
        .args(of_cargo(judge).map(|word| format!("--cargo-arg={word}")))
        .current_dir(place.join("tree"))
        .env("CARGO_TARGET_DIR", place.join("target"));
    mutants
}

/// The results of the mutants of one package.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    package: String,
    caught: usize,
    /// The tests did not end, which also counts as noticed: a person would notice at the latest.
    hung: usize,
    /// The mutants that did not compile.
    unviable: usize,
    lived: Vec<String>,
}

impl Found {
    /// Reads the files of the last run.
    fn read(package: &str, files: &Path) -> Self {
        let folder: PathBuf = files.join("mutants.out");
        let lines = |name: &str| {
            let text = fs::read_to_string(folder.join(name)).unwrap_or_default();
            text.lines().map(str::to_owned).collect::<Vec<String>>()
        };
        Self {
            package: package.to_owned(),
            caught: lines("caught.txt").len(),
            hung: lines("timeout.txt").len(),
            unviable: lines("unviable.txt").len(),
            lived: lines("missed.txt"),
        }
    }

    /// Returns the results after the survivors have been tried once more; survivors that were not tried again have no result.
    fn then(&self, again: Self) -> Self {
        Self {
            caught: self.caught + again.caught,
            hung: self.hung + again.hung,
            unviable: self.unviable,
            ..again
        }
    }

    fn tried(&self) -> usize {
        self.caught + self.hung + self.lived.len()
    }
}

/// The findings of one run.
#[derive(Debug, Default)]
struct Sample {
    packages: Vec<Found>,
}

impl Display for Sample {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14}{:>7}{:>7}{:>7}{:>11}",
            "package", "caught", "hung", "lived", "unviable"
        )?;
        for found in &self.packages {
            writeln!(
                f,
                "{:<14}{:>7}{:>7}{:>7}{:>11}",
                found.package,
                found.caught,
                found.hung,
                found.lived.len(),
                found.unviable
            )?;
        }
        for found in &self.packages {
            for mutant in &found.lived {
                write!(f, "\nlived: {mutant}")?;
            }
        }
        let tried: usize = self.packages.iter().map(Found::tried).sum();
        let lived: usize = self.packages.iter().map(|found| found.lived.len()).sum();
        write!(f, "\n{lived} of {tried} mutants lived")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lives_is_listed_and_counted() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("comm-x/mutants.out");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("caught.txt"), "a\nb\nc\n").unwrap();
        fs::write(folder.join("timeout.txt"), "d\n").unwrap();
        fs::write(folder.join("missed.txt"), "x/src/lib.rs:3: replace f\n").unwrap();
        let packages = vec![Found::read("comm-x", &place.path().join("comm-x"))];
        let shown = Sample { packages }.to_string();
        assert!(
            shown.contains("\ncomm-x              3      1      1          0\n"),
            "{shown}"
        );
        assert!(
            shown.contains("\nlived: x/src/lib.rs:3: replace f\n"),
            "{shown}"
        );
        assert!(shown.ends_with("\n1 of 5 mutants lived"), "{shown}");
    }

    #[test]
    fn a_package_of_which_nothing_is_known_was_not_tried() {
        let place = tempfile::tempdir().unwrap();
        assert_eq!(Found::read("comm-x", place.path()).tried(), 0);
    }

    #[test]
    fn the_time_is_bounded_and_the_workspace_itself_is_not_changed() {
        let place = Path::new("/place");
        let judge = "--test suite -- --world 3";
        let mutants = prepare(place, "comm-x", "comm-x", judge, Duration::from_mins(5));
        let shown = shown(&mutants);
        assert!(
            shown.starts_with("timeout --signal=INT --kill-after=60 300 "),
            "{shown}"
        );
        assert!(
            shown.ends_with("--output /place/comm-x --cargo-arg=--test --cargo-arg=suite"),
            "{shown}"
        );
        assert_eq!(mutants.get_current_dir(), Some(Path::new("/place/tree")));
        assert_eq!(of_tests(judge).collect::<Vec<_>>(), ["--", "--world", "3"]);
    }

    #[test]
    fn what_outlives_the_quick_judge_is_judged_once_more() {
        let found = |caught, lived: &[&str]| Found {
            package: "comm-x".to_owned(),
            caught,
            lived: lived.iter().map(|&name| name.to_owned()).collect(),
            ..Found::default()
        };
        // The time ended before the third mutant.
        let both = found(5, &["a", "b", "c"]).then(found(1, &["b"]));
        assert_eq!(both, found(6, &["b"]));
    }

    #[test]
    fn a_mutant_is_named_literally() {
        let name = "a/b.rs:3:1: replace f -> Option<u64> with Some(1)";
        let expected = r"a/b\.rs:3:1: replace f \-> Option<u64> with Some\(1\)";
        assert_eq!(literal(name), expected);
    }
}
