//! Looks for an MPI library where the bindings do; prints advice if there is none, and otherwise records
//! which one it is and where.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const PREFIXES: [&str; 4] = ["/usr", "/usr/local", "/opt/mpich", "/opt/openmpi"];

fn main() {
    for variable in ["MPI_PKG_CONFIG", "MPICC", "CRAY_MPICH_DIR"]
        .iter()
        .chain(&["PATH", "PKG_CONFIG_PATH"])
    {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let Some(flags) = flags() else {
        println!(
            "cargo::error=comm-mpi needs an MPI library and found none: install MPICH or Open MPI \
             with its headers (Debian: apt-get install mpich libmpich-dev, or openmpi-bin \
             libopenmpi-dev), or name its compiler in MPICC. The local, shm and tcp backends need \
             no MPI: build without comm-mpi, or the feature `mpi`"
        );
        return;
    };
    let folders = |flag| {
        let words = flags.split_whitespace();
        words.filter_map(move |word| word.strip_prefix(flag))
    };
    if let Some(folder) = folders("-L").find(|folder| holds_mpi(folder)) {
        println!("cargo::rustc-env=COMM_MPI_PROBE_FOLDER={folder}");
        // For the build scripts of packages that depend on this one.
        println!("cargo::metadata=FOLDER={folder}");
    }
    let headers = folders("-I").chain(["/usr/include"]);
    let mut headers = headers.map(|folder| fs::read_to_string(Path::new(folder).join("mpi.h")));
    // Every library has the standard ABI.
    if !flags.contains("-DMPI_ABI")
        && let Some(library) = headers.find_map(Result::ok).as_deref().and_then(library)
    {
        println!("cargo::rustc-env=COMM_MPI_PROBE_HEADER={library}");
    }
}

/// Returns the flags with which a program is compiled and linked; none if there is no MPI library.
///
/// Variables set by hand take precedence; if one is wrong, the bindings report it.
fn flags() -> Option<String> {
    let named = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    if let Some(package) = named("MPI_PKG_CONFIG") {
        return Some(packaged(&package).unwrap_or_default());
    }
    if let Some(compiler) = named("MPICC") {
        return Some(wrapped(&compiler).unwrap_or_default());
    }
    if let Some(prefix) = named("CRAY_MPICH_DIR") {
        return Some(below(&prefix));
    }
    let mut packages = ["mpich", "ompi", "mpi"].into_iter();
    let header = |prefix: &&str| Path::new(prefix).join("include/mpi.h").exists();
    packages
        .find_map(packaged)
        .or_else(|| wrapped("mpicc"))
        .or_else(|| PREFIXES.into_iter().find(header).map(below))
}

fn packaged(package: &str) -> Option<String> {
    said("pkg-config", &["--cflags", "--libs", package])
}

fn wrapped(compiler: &str) -> Option<String> {
    said(compiler, &["-show"]).or_else(|| said(compiler, &["--showme"]))
}

fn below(prefix: &str) -> String {
    format!("-I{prefix}/include -L{prefix}/lib -L{prefix}/lib64")
}

/// Returns the output of a program, if it succeeds.
fn said(program: &str, arguments: &[&str]) -> Option<String> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null());
    let output = command.stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then_some(text)
}

fn holds_mpi(folder: &str) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names = files.map(|file| file.file_name());
    names.any(|name| name.to_string_lossy().starts_with("libmpi"))
}

/// Determines whose `mpi.h` this is, as the library describes itself: `Open MPI v5.0.11`, `MPICH 5.0.2`.
fn library(header: &str) -> Option<String> {
    let defined = |name| {
        header.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            let is_it = words.next() == Some("#define") && words.next() == Some(name);
            let value = is_it.then(|| words.next()).flatten();
            value.map(|value| value.trim_matches('"'))
        })
    };
    let Some(major) = defined("OMPI_MAJOR_VERSION") else {
        return defined("MPICH_VERSION").map(|version| format!("MPICH {version}"));
    };
    let [minor, release] = ["OMPI_MINOR_VERSION", "OMPI_RELEASE_VERSION"].map(defined);
    let version = [Some(major), minor, release].map(|number| number.unwrap_or("0"));
    Some(format!("Open MPI v{}", version.join(".")))
}
