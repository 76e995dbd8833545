//! Ranks under the `mpiexec` of the MPI library that this program was built with.

use std::process::Command;

use comm_conformance::Launcher;
use comm_run::Job;

/// Prepares `mpiexec -n RANKS`, ready for a program. `MPIEXEC` names one other than that in `PATH`.
pub(crate) fn launch(ranks: usize) -> Result<Job, String> {
    let program = std::env::var("MPIEXEC").unwrap_or_else(|_| "mpiexec".to_owned());
    let version = Command::new(&program)
        .arg("--version")
        .output()
        .map_err(|why| format!("{program} cannot start: {why}; set MPIEXEC"))?;
    let mut job = Job::new(&program, 1);
    if String::from_utf8_lossy(&version.stdout).contains("Open") {
        let flags = [
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ];
        job = job.args(flags);
    }
    job = job.args(["-n", &ranks.to_string()]);
    for (name, value) in Launcher::YIELDING {
        job = job.env(name, value);
    }
    Ok(job.env("COBRE_COMM_BACKEND", "mpi"))
}
