//! Lets tests and examples find an MPI library outside the system's folders. A library cannot do so for programs: each has a line like
//! this, see the README of `comm-mpi`.

fn main() {
    // Set by the build script of the probe, if there is MPI. Cargo runs this again after that; without this line, after any change.
    println!("cargo::rerun-if-env-changed=DEP_COMM_MPI_PROBE_FOLDER");
    if let Ok(folder) = std::env::var("DEP_COMM_MPI_PROBE_FOLDER") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
