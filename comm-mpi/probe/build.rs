//! Looks for an MPI library where the bindings do, and says what to do if there is none.

use std::path::Path;
use std::process::{Command, Stdio};

/// What names an MPI library by hand; the bindings check what it says.
const NAMED_BY: [&str; 3] = ["MPI_PKG_CONFIG", "MPICC", "CRAY_MPICH_DIR"];

const PREFIXES: [&str; 4] = ["/usr", "/usr/local", "/opt/mpich", "/opt/openmpi"];

fn main() {
    for variable in NAMED_BY.iter().chain(&["PATH", "PKG_CONFIG_PATH"]) {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let named = NAMED_BY
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| !value.is_empty()));
    let header = |prefix: &&str| Path::new(prefix).join("include/mpi.h").exists();
    let found = named
        || ["mpich", "ompi", "mpi"]
            .iter()
            .any(|package| succeeds("pkg-config", &["--exists", package]))
        || succeeds("mpicc", &["-show"])
        || succeeds("mpicc", &["--showme"])
        || PREFIXES.iter().any(header);
    if !found {
        println!(
            "cargo::error=comm-mpi needs an MPI library and found none: install MPICH or Open MPI \
             with its headers (Debian: apt-get install mpich libmpich-dev, or openmpi-bin \
             libopenmpi-dev), or name its compiler in MPICC. The local, shm and tcp backends need \
             no MPI: build without comm-mpi, or the feature `mpi`"
        );
    }
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
