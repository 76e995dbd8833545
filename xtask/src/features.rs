//! Compiles and lints the crates whose features select backends, with every set of these features: each set must work on its own.

use std::process::Command;

use crate::mpi::Mpi;
use crate::process::cargo;

/// The packages, each with the features that need nothing installed.
const PACKAGES: [(&str, &[&str]); 2] = [
    ("comm-factory", &["shm", "tcp"]),
    ("cobre-comm", &["shm", "tcp", "shared-memory"]),
];
/// The feature that needs an MPI library.
const MPI: &str = "mpi";

/// Checks the sets without `mpi`.
pub(crate) fn without_mpi() -> Vec<Command> {
    all(None, |package| cargo(&["clippy", "--package", package]))
}

/// Checks the sets with `mpi`, with one library.
pub(crate) fn with_mpi(mpi: Mpi) -> Vec<Command> {
    all(Some(MPI), |package| mpi.cargo("clippy", package))
}

fn all(always: Option<&str>, prepare: impl Fn(&str) -> Command) -> Vec<Command> {
    let of = |&(package, free): &(&'static str, &[&str])| {
        let prepare = |set: String| clippy(prepare(package), &set);
        sets(always, free)
            .into_iter()
            .map(prepare)
            .collect::<Vec<_>>()
    };
    PACKAGES.iter().flat_map(of).collect()
}

fn clippy(mut cargo: Command, set: &str) -> Command {
    cargo.args(["--quiet", "--all-targets", "--no-default-features"]);
    cargo.args(["--features", set, "--", "-D", "warnings"]);
    cargo
}

/// Lists every set of the free features, each with `always`.
fn sets(always: Option<&str>, free: &[&str]) -> Vec<String> {
    let masks = 0..1_usize << free.len();
    let set = |mask: usize| {
        let free = free.iter().enumerate();
        let chosen = free.filter(|(bit, _)| mask >> bit & 1 == 1);
        let names = always.into_iter().chain(chosen.map(|(_, name)| *name));
        names.collect::<Vec<_>>().join(",")
    };
    masks.map(set).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::process::workspace_root;

    /// A feature that is added to a manifest must be added here, too, except `default` and `numa`, which only select others.
    #[test]
    fn the_sets_are_those_of_the_manifests() {
        for (package, free) in PACKAGES {
            let folder = match package {
                "cobre-comm" => "compat/cobre-comm",
                package => package,
            };
            let manifest = workspace_root().join(folder).join("Cargo.toml");
            let manifest = std::fs::read_to_string(manifest).unwrap();
            let (_, features) = manifest.split_once("[features]\n").unwrap();
            let (features, _) = features.split_once("\n[").unwrap();
            let names = features.lines().filter_map(|line| line.split_once(" = "));
            let names = names.map(|(name, _)| name);
            let names: BTreeSet<&str> = names
                .filter(|name| !["default", "numa"].contains(name))
                .collect();
            let all = sets(Some(MPI), free).pop().unwrap();
            assert_eq!(names, all.split(',').collect(), "{package}");
        }
    }

    #[test]
    fn eight_sets_of_the_factory_all_different() {
        let (_, free) = PACKAGES[0];
        let sets = [sets(None, free), sets(Some(MPI), free)].concat();
        let sets: BTreeSet<_> = sets.into_iter().collect();
        assert_eq!(sets.len(), 8, "{sets:?}");
        assert!(
            sets.contains("") && sets.contains("mpi,shm,tcp"),
            "{sets:?}"
        );
    }
}
