//! Every check, with invented files and numbers.

use std::time::Duration;

use super::{judge_clock, judge_memory, judge_processors, mpi_named, version};
use crate::doctor::Level;

#[test]
fn a_quota_below_the_processors_is_a_warning() {
    let finding = judge_processors(4, Some(1.5));
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.to_string().contains("-n 1 "), "{finding}");
    assert_eq!(judge_processors(4, Some(4.0)).level, Level::Fine);
    assert_eq!(judge_processors(4, None).level, Level::Fine);
}

#[test]
fn little_memory_is_a_warning() {
    assert_eq!(judge_memory(Some(1 << 20)).level, Level::Warning);
    assert_eq!(judge_memory(Some(1 << 30)).level, Level::Fine);
    assert_eq!(judge_memory(None).level, Level::Fine);
}

#[test]
fn each_mpi_tells_its_version_in_its_own_way() {
    let lines = |text: &str| {
        text.lines()
            .map(|line| line.trim().to_owned())
            .collect::<Vec<_>>()
    };
    let hydra = lines("HYDRA build details:\n    Version:          4.0.2\n    CC: gcc");
    assert_eq!(version(&hydra), "Hydra of MPICH 4.0.2");
    let open = lines("mpiexec (OpenRTE) 4.1.4\nReport bugs");
    assert_eq!(version(&open), "mpiexec (OpenRTE) 4.1.4");
    assert_eq!(version(&[]), "of unknown version: it prints none");
}

#[test]
fn no_mpi_is_fine_and_a_broken_one_is_not() {
    assert_eq!(mpi_named("no-such-mpiexec").level, Level::Fine);
    assert_eq!(mpi_named("false").level, Level::Warning);
}

#[test]
fn slow_and_unset_clocks_are_warned_of() {
    let now = Duration::from_secs(2_000_000_000);
    assert_eq!(judge_clock(Some("tsc"), now).level, Level::Fine);
    assert_eq!(judge_clock(None, now).level, Level::Fine);
    assert_eq!(judge_clock(Some("hpet"), now).level, Level::Warning);
    assert_eq!(
        judge_clock(Some("tsc"), Duration::ZERO).level,
        Level::Warning
    );
}
