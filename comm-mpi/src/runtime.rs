//! Which MPI this is, and whether it is the one that this program was built with.

use comm_mpi_probe::{FOLDER, HEADER};
use ferrompi::Mpi;

use crate::communicator::FerrompiBackend;
use crate::error::{self, InitError};

/// Describes the MPI library.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MpiRuntime {
    /// The name and version of the library, in one line: `MPICH 4.0.2`.
    pub library: String,
    /// The version of the standard: `MPI 4.0`.
    pub standard: String,
    /// The thread level: `Multiple`.
    pub thread_level: String,
}

impl FerrompiBackend {
    /// Describes this MPI library. Sends nothing.
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

/// Rejects a library other than that of the `mpi.h` with which the bindings were compiled: handles and
/// constants differ between implementations, and an older version may lack what the header declares.
pub(crate) fn check() -> Result<(), InitError> {
    match (HEADER, Mpi::library_version()) {
        (Some(header), Ok(library)) => compare(header, &one_line(&library), FOLDER),
        _ => Ok(()),
    }
}

fn compare(header: &str, library: &str, folder: Option<&str>) -> Result<(), InitError> {
    match (release(header), release(library)) {
        (Some((one, built)), Some((other, loaded))) if one != other || loaded < built => {
            Err(error::another_library(header, library, folder))
        }
        _ => Ok(()),
    }
}

/// Returns the implementation and its major version; `None` for derivatives of the two. Many clusters run
/// programs built with MPICH on a derivative that has the same binary interface.
fn release(library: &str) -> Option<(&'static str, u32)> {
    ["MPICH ", "Open MPI v"].into_iter().find_map(|name| {
        let version = library.strip_prefix(name)?;
        let major = version.split(|c: char| !c.is_ascii_digit()).next()?;
        Some((name, major.parse().ok()?))
    })
}

/// Shortens a library's description of itself: MPICH has a table, Open MPI a line with its options.
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
    use super::*;

    /// The library that the build script found, and the one at run time.
    #[test]
    fn the_header_is_that_of_the_library() {
        let library = one_line(&Mpi::library_version().unwrap());
        assert_eq!(HEADER, Some(&*library));
        assert_eq!(check(), Ok(()));
    }

    #[test]
    fn another_minor_version_or_a_newer_one_or_a_descendant_is_fine() {
        for (header, library) in [
            ("MPICH 4.3.1", "MPICH 4.0.2"),
            ("MPICH 4.0.2", "MPICH 5.0.2"),
            ("Open MPI v4.1.4", "Open MPI v4.0.1"),
            ("Open MPI v4.1.4", "Open MPI v5.0.11"),
            ("Open MPI v9.0.0", "Open MPI v10.0.0rc1"),
            ("MPICH 4.0.2", "Intel(R) MPI Library 2021.6 for Linux* OS"),
            ("Open MPI v4.1.4", "IBM Spectrum MPI"),
        ] {
            assert_eq!(compare(header, library, None), Ok(()), "{header}");
        }
    }

    #[test]
    fn another_implementation_or_an_older_major_version_is_refused() {
        for (header, library) in [
            ("MPICH 5.0.2", "MPICH 4.0.2"),
            ("Open MPI v5.0.11", "Open MPI v4.1.4"),
            ("MPICH 4.0.2", "Open MPI v4.1.4"),
            ("Open MPI v4.1.4", "MPICH 4.0.2"),
        ] {
            let error = compare(header, library, Some("/opt/mpi/lib")).unwrap_err();
            let message = &error.message;
            for words in [header, library, "-Wl,-rpath,/opt/mpi/lib\""] {
                assert!(message.contains(words), "{message}");
            }
            assert!(compare(header, library, None).is_err());
        }
    }

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
