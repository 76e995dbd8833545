//! Which MPI library the bindings are compiled with, as found by the build script.
//!
//! A separate crate without dependencies, so that it is built long before the bindings, whose build script
//! would fail with a message that does not mention the other backends.
//!
//! Its build script also passes the folder of the library to the build scripts of packages that depend on
//! this one, in `DEP_COMM_MPI_PROBE_FOLDER`.

/// Whose `mpi.h` it is, if it is one of the two: `Open MPI v5.0.11` or `MPICH 5.0.2`.
pub const HEADER: Option<&str> = option_env!("COMM_MPI_PROBE_HEADER");

/// The folder of the library, if the compiler names it.
pub const FOLDER: Option<&str> = option_env!("COMM_MPI_PROBE_FOLDER");
