//! Which MPI library the bindings are compiled with, as the build script found it.
//!
//! A crate of its own, without dependencies, so that it is there long before the bindings, whose
//! build script would fail in words that do not know the other backends.
//!
//! Its build script also hands the folder of the library to those of packages that depend on this one, in
//! `DEP_COMM_MPI_PROBE_FOLDER`.

/// Whose `mpi.h` it is, if it is one of the two: `Open MPI v5.0.11` or `MPICH 5.0.2`.
pub const HEADER: Option<&str> = option_env!("COMM_MPI_PROBE_HEADER");

/// The folder of the library, if the compiler names it.
pub const FOLDER: Option<&str> = option_env!("COMM_MPI_PROBE_FOLDER");
