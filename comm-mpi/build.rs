//! Lets tests and examples find an MPI library outside the system folders. A library crate cannot do that for
//! programs: each needs a line like this, see the README of `comm-mpi`.

fn main() {
    // Set by the build script of the probe, if there is an MPI. Cargo then reruns this script; without this
    // line it would rerun after any change.
    println!("cargo::rerun-if-env-changed=DEP_COMM_MPI_PROBE_FOLDER");
    if let Ok(folder) = std::env::var("DEP_COMM_MPI_PROBE_FOLDER") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
