//! The names of the backends.

use std::fmt;

/// The name of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Name {
    /// An MPI library, through `ferrompi`.
    Mpi,
    /// TCP sockets.
    Tcp,
    /// A shared segment on one machine.
    Shm,
    /// A single process.
    Local,
}

impl Name {
    /// All backends, in the order in which `auto` prefers them.
    pub const ALL: [Self; 4] = [Self::Mpi, Self::Tcp, Self::Shm, Self::Local];

    /// Returns the name that variables and features use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Mpi => "mpi",
            Self::Tcp => "tcp",
            Self::Shm => "shm",
            Self::Local => "local",
        }
    }

    /// Finds a backend by its name; case does not matter.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let names = Self::ALL.into_iter();
        names
            .into_iter()
            .find(|name| name.as_str().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Returns the name that `text` probably means.
pub(crate) fn nearest(text: &str) -> Option<&'static str> {
    let names = Name::ALL.map(Name::as_str).into_iter().chain(["auto"]);
    comm_kit::nearest(text, names)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::{Name, nearest};

    #[rstest]
    #[case("mpi", Some(Name::Mpi))]
    #[case("SHM", Some(Name::Shm))]
    #[case("Local", Some(Name::Local))]
    #[case("auto", None)]
    #[case("", None)]
    fn parses(#[case] text: &str, #[case] expected: Option<Name>) {
        assert_eq!(Name::parse(text), expected);
    }

    #[rstest]
    #[case("smh", Some("shm"))]
    #[case("tpc", Some("tcp"))]
    #[case("MPICH", Some("mpi"))]
    #[case("loca", Some("local"))]
    #[case("atuo", Some("auto"))]
    #[case("infiniband", None)]
    #[case("", None)]
    fn suggests(#[case] text: &str, #[case] expected: Option<&str>) {
        assert_eq!(nearest(text), expected);
    }
}
