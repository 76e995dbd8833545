//! The program `fixtures/heat` with MPI: the bits that it has on every backend. `comm-run/tests/heat.rs` has the other backends, and the
//! mistakes.
//!
//! `MPIEXEC` names the `mpiexec` that belongs to the library it is built with, as `cargo xtask test` does; else it is the one in `PATH`.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a helper of tests may fail like a test")]

mod heat;
mod hello;

use std::process::Command;

#[test]
fn the_same_bits_with_mpi() {
    let program = heat::build("mpi");
    let mpiexec = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    for ranks in ["1", "2"] {
        let mut job = Command::new("timeout");
        // The step is a minute's at most, on a machine that is busy.
        job.args(["--kill-after=5", "60", &mpiexec, "-n", ranks, &program]);
        for name in ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] {
            job.env(name, "1");
        }
        job.env("OMPI_MCA_rmaps_base_oversubscribe", "1");
        let output = job.output().unwrap();
        assert!(output.status.success(), "{ranks}: {output:?}");
        assert_eq!(hello::sorted(&output.stdout), [heat::LINE], "{ranks}");
    }
}
