//! Compiles and lints the factory with every set of its features: each must stand alone.

use std::process::Command;

use crate::mpi::Mpi;
use crate::process::cargo;

/// The features that need nothing installed.
const FREE: [&str; 2] = ["shm", "tcp"];
/// The one that needs an MPI library.
const MPI: &str = "mpi";

/// Checks the sets without `mpi`.
pub(crate) fn without_mpi() -> Vec<Command> {
    let prepare = |set: &String| clippy(cargo(&["clippy", "--package", "comm-factory"]), set);
    sets(None).iter().map(prepare).collect()
}

/// Checks the sets with `mpi`, with one library.
pub(crate) fn with_mpi(mpi: Mpi) -> Vec<Command> {
    let prepare = |set: &String| clippy(mpi.cargo("clippy", "comm-factory"), set);
    sets(Some(MPI)).iter().map(prepare).collect()
}

fn clippy(mut cargo: Command, set: &str) -> Command {
    cargo.args(["--quiet", "--all-targets", "--features", set]);
    cargo.args(["--", "-D", "warnings"]);
    cargo
}

/// Lists every set of the free features, each with `always`.
fn sets(always: Option<&str>) -> Vec<String> {
    let masks = 0..1_usize << FREE.len();
    let set = |mask: usize| {
        let free = FREE.iter().enumerate();
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

    /// A feature that is added to the manifest must be added here.
    #[test]
    fn the_sets_are_those_of_the_manifest() {
        let manifest = workspace_root().join("comm-factory/Cargo.toml");
        let manifest = std::fs::read_to_string(manifest).unwrap();
        let (_, features) = manifest.split_once("[features]\n").unwrap();
        let (features, _) = features.split_once("\n[").unwrap();
        let names = features.lines().filter_map(|line| line.split_once(" = "));
        let names: BTreeSet<&str> = names.map(|(name, _)| name).collect();
        let all = sets(Some(MPI)).pop().unwrap();
        assert_eq!(names, all.split(',').collect());
    }

    #[test]
    fn eight_sets_all_different() {
        let sets: BTreeSet<_> = [sets(None), sets(Some(MPI))].concat().into_iter().collect();
        assert_eq!(sets.len(), 8, "{sets:?}");
        assert!(
            sets.contains("") && sets.contains("mpi,shm,tcp"),
            "{sets:?}"
        );
    }
}
