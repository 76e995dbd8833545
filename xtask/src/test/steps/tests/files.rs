//! Every file of tests runs in a step.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::Value;

use super::super::{after_build, before_build, build};
use crate::process::cargo;
use crate::test::Work;

/// A file of tests that cargo knows.
struct File {
    package: String,
    name: String,
    /// The features that cargo requires to build it.
    needs: BTreeSet<String>,
    text: String,
    /// The features of the package, each with those that it enables.
    features: BTreeMap<String, Vec<String>>,
}

/// Lists the test files of the workspace.
fn files() -> Vec<File> {
    let metadata = ["metadata", "--no-deps", "--locked", "--format-version", "1"];
    let output = cargo(&metadata).output().unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let strings = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut files = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let features = package["features"].as_object().unwrap().iter();
        let features: BTreeMap<_, _> = features
            .map(|(name, on)| (name.clone(), strings(on)))
            .collect();
        for target in package["targets"].as_array().unwrap() {
            if strings(&target["kind"]) == ["test"] {
                files.push(File {
                    package: package["name"].as_str().unwrap().to_owned(),
                    name: target["name"].as_str().unwrap().to_owned(),
                    needs: strings(&target["required-features"]).into_iter().collect(),
                    text: fs::read_to_string(target["src_path"].as_str().unwrap()).unwrap(),
                    features: features.clone(),
                });
            }
        }
    }
    files
}

/// Returns whether `cargo` with these arguments runs this file.
fn runs(arguments: &[String], file: &File) -> bool {
    let ours = arguments.split(|argument| argument == "--").next().unwrap();
    let has = |flag: &str| ours.iter().any(|argument| argument == flag);
    let values = |option: &str| -> Vec<&str> {
        let pairs = ours.windows(2).filter(|pair| pair[0] == option);
        pairs.map(|pair| pair[1].as_str()).collect()
    };
    if ours.first().is_none_or(|command| command != "test") || has("--no-run") {
        return false;
    }
    let is_in = |option| values(option).contains(&file.package.as_str());
    let selected = is_in("--package") || has("--workspace") && !is_in("--exclude");
    let of_a_kind = ["--lib", "--bins", "--doc", "--examples"];
    let others_only = of_a_kind.into_iter().any(has) || !values("--test").is_empty();
    let wanted = values("--test").contains(&file.name.as_str()) || has("--tests") || !others_only;
    selected
        && wanted
        && file
            .needs
            .is_subset(&turned_on(&values("--features"), file))
}

/// Returns the features of the package that the `given` ones enable, and the default ones.
fn turned_on(given: &[&str], file: &File) -> BTreeSet<String> {
    let given = given.iter().flat_map(|list| list.split(','));
    let mut open: Vec<String> = given.chain(["default"]).map(str::to_owned).collect();
    let mut on = BTreeSet::new();
    while let Some(feature) = open.pop() {
        open.extend(file.features.get(&feature).into_iter().flatten().cloned());
        on.insert(feature);
    }
    on
}

/// Lists the arguments of all commands of all steps.
fn commands() -> Vec<Vec<String>> {
    let steps = before_build()
        .into_iter()
        .chain([build()])
        .chain(after_build());
    let mut commands = Vec::new();
    for step in steps {
        if let Work::Run(of_the_step) = step.work {
            commands.extend(of_the_step);
        }
    }
    let text = |argument: &std::ffi::OsStr| argument.to_str().unwrap().to_owned();
    commands
        .iter()
        .map(|command| command.get_args().map(text).collect())
        .collect()
}

#[test]
fn every_file_of_tests_runs_in_a_step() {
    let (files, commands) = (files(), commands());
    assert!(files.len() > 50, "{}", files.len());
    let forgotten: Vec<String> = files
        .iter()
        .filter(|file| !commands.iter().any(|command| runs(command, file)))
        .map(|file| format!("{} of {}", file.name, file.package))
        .collect();
    assert!(forgotten.is_empty(), "no step runs {forgotten:?}");
}

/// Without required-features, cargo would compile such a file to an empty test, which passes.
#[test]
fn a_file_that_needs_features_says_so_in_the_manifest() {
    for file in files() {
        let mut conditions = file.text.lines().filter(|line| line.starts_with("#![cfg("));
        let hidden = conditions.find(|line| line.contains("feature"));
        assert_eq!(
            hidden, None,
            "{} of {}: required-features",
            file.name, file.package
        );
    }
}

#[test]
fn what_a_command_runs_is_what_its_arguments_select() {
    let file = |needs: &[&str]| File {
        package: "comm-x".to_owned(),
        name: "one".to_owned(),
        needs: needs.iter().map(ToString::to_string).collect(),
        text: String::new(),
        features: [("default", vec!["shm"]), ("all", vec!["mpi", "tcp"])]
            .map(|(name, on)| {
                (
                    name.to_owned(),
                    on.iter().map(ToString::to_string).collect(),
                )
            })
            .into(),
    };
    let runs = |arguments: &str, needs: &[&str]| {
        let arguments: Vec<String> = arguments.split(' ').map(str::to_owned).collect();
        runs(&arguments, &file(needs))
    };
    for arguments in [
        "test --package comm-x",
        "test --workspace --exclude comm-y",
        "test --package comm-y --package comm-x --no-fail-fast -- --no-run",
        "test --package comm-x --lib --test one",
        "test --package comm-x --lib --tests",
    ] {
        assert!(runs(arguments, &[]), "{arguments}");
    }
    for arguments in [
        "build --package comm-x",
        "test --package comm-y",
        "test --workspace --exclude comm-x",
        "test --package comm-x --no-run",
        "test --package comm-x --lib",
        "test --package comm-x --test two -- --test one",
    ] {
        assert!(!runs(arguments, &[]), "{arguments}");
    }
    assert!(runs("test --package comm-x", &["shm"]));
    assert!(runs(
        "test --package comm-x --features shm,tcp",
        &["shm", "tcp"]
    ));
    assert!(runs(
        "test --package comm-x --features all",
        &["mpi", "tcp"]
    ));
    assert!(!runs("test --package comm-x", &["shm", "tcp"]));
}
