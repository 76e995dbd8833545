//! The backends that a program can ask for, and those that are compiled in.

use crate::name::Name;

/// Which backend a program asks for, with its configuration if the program brings one.
///
/// `Auto`, `Mpi` and `Local` always exist, so that code that names them compiles with any set of
/// features; asking for a backend that is not compiled in is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum BackendKind {
    /// The backend that the environment selects, see [`select`](crate::select).
    #[default]
    Auto,
    /// MPI, configured by the environment.
    Mpi,
    /// TCP sockets.
    #[cfg(feature = "tcp")]
    Tcp(comm_tcp::TcpConfig),
    /// A shared segment on one machine.
    #[cfg(feature = "shm")]
    Shm(comm_shm::ShmConfig),
    /// A single process.
    Local,
}

/// The backends that are compiled in, best first.
pub(crate) const COMPILED: &[Name] = &[
    #[cfg(feature = "mpi")]
    Name::Mpi,
    #[cfg(feature = "tcp")]
    Name::Tcp,
    #[cfg(feature = "shm")]
    Name::Shm,
    Name::Local,
];

/// Lists the names of the backends that are compiled in, best first.
///
/// ```
/// assert_eq!(comm_factory::available_backends().last(), Some(&"local"));
/// ```
#[must_use]
pub fn available_backends() -> &'static [&'static str] {
    const NAMES: [&str; COMPILED.len()] = {
        let mut names = [""; COMPILED.len()];
        let mut i = 0;
        while i < names.len() {
            names[i] = COMPILED[i].as_str();
            i += 1;
        }
        names
    };
    &NAMES
}
