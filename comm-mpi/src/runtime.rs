//! Which MPI this is.

use ferrompi::Mpi;

use crate::communicator::FerrompiBackend;

/// Describes the MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpiRuntime {
    /// Its name and version, in one line: `MPICH 4.0.2`.
    pub library: String,
    /// The version of the standard: `MPI 4.0`.
    pub standard: String,
    /// What it permits threads to do: `Multiple`.
    pub thread_level: String,
}

impl FerrompiBackend {
    /// Returns which MPI this is. Nothing is sent.
    #[must_use]
    pub fn runtime(&self) -> MpiRuntime {
        let unknown = |_| String::from("unknown");
        MpiRuntime {
            library: Mpi::library_version().map_or_else(unknown, |text| one_line(&text)),
            standard: Mpi::version().unwrap_or_else(unknown),
            thread_level: format!("{:?}", self.ranks.life().end().level()),
        }
    }
}

/// Shortens what a library says of itself: MPICH has a table, Open MPI a line with its options.
fn one_line(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default().trim();
    if let Some((name, version)) = first.split_once(" Version:") {
        return format!("{name} {}", version.trim());
    }
    let (line, _) = first.split_once(',').unwrap_or((first, ""));
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn every_library_fits_in_a_line() {
        let mpich = "MPICH Version:      4.0.2\nMPICH Release date: Thu Apr  7\nMPICH ABI: 14:2:2";
        assert_eq!(one_line(mpich), "MPICH 4.0.2");
        let open = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
        assert_eq!(one_line(open), "Open MPI v4.1.4");
        let intel = "Intel(R) MPI Library 2021.6 for Linux* OS";
        assert_eq!(one_line(intel), intel);
        assert_eq!(one_line(""), "");
    }
}
