//! The crates that the steps compile, and the tests that they run.

use std::collections::BTreeMap;

use super::*;

mod files;

/// Lists the packages that a selection compiles, each with its features.
fn compiled(selection: &[&str], edges: &str) -> BTreeMap<String, Vec<String>> {
    let mut tree = cargo(&["tree", "--quiet", "--locked", "--prefix", "none", "--edges"]);
    tree.args([edges, "--format", "{p} [{f}]"]).args(selection);
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut packages = BTreeMap::<String, Vec<String>>::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let line = line.trim_end_matches(" (*)");
        // Between two of the selected packages is an empty line.
        let Some((name, _)) = line.split_once(' ') else {
            continue;
        };
        let same = packages.entry(name.to_owned()).or_default();
        if !same.iter().any(|other| other == line) {
            same.push(line.to_owned());
        }
    }
    packages
}

/// If one group of packages needs an additional feature of a dependency, the backends and the suite are compiled twice.
#[test]
fn what_most_tests_stand_on_is_compiled_once() {
    let libraries = compiled(
        &["--package", "comm-conformance", "--package", "comm-tcp"],
        "normal",
    );
    assert!(libraries.contains_key("tracing-core"), "{libraries:?}");
    let all = "normal,build,dev";
    let shared = compiled(&SHARED, all);
    let selections = [
        &NETWORK[..],
        &CHAOS[..6],
        &FACTORY,
        &SOLVER,
        &PORTABLE[1..3],
    ];
    for (number, selection) in selections.into_iter().enumerate() {
        let others = compiled(selection, all);
        // The first two also depend on crates that only tests use.
        let wanted = |name: &&String| number < 2 || libraries.contains_key(*name);
        for name in others.keys().filter(wanted) {
            let all = others[name].iter().all(|line| shared[name].contains(line));
            assert!(all, "{selection:?}: {:?}, {:?}", others[name], shared[name]);
        }
    }
}
