//! Lets tests and examples find an MPI library outside the system's folders. A library cannot do that for other programs: each of
//! them needs a line like this, see the README of `comm-mpi`.

fn main() {
    // The build script of the probe sets this variable if there is MPI, and cargo then runs this script again. Without this line cargo
    // would run it after any change.
    println!("cargo::rerun-if-env-changed=DEP_COMM_MPI_PROBE_FOLDER");
    if let Ok(folder) = std::env::var("DEP_COMM_MPI_PROBE_FOLDER") {
        println!("cargo::rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
