//! Fetches the newest MPI libraries, each into a separate environment below `target`; both include an `mpiexec`.

use super::build::Programs;
use super::contender::Peer;
use crate::process::Terminal;
use crate::python::environment::Environment;
use crate::report::Outcome;
use crate::tools::PYTHON;

/// Creates the environments, or updates the existing ones.
///
/// # Errors
///
/// One line with what is missing, or why a package could not be installed.
pub(super) fn peers(programs: &Programs) -> Result<(), String> {
    if let Some(advice) = PYTHON.missing() {
        return Err(advice);
    }
    for peer in Peer::ALL {
        let Some(package) = peer.package() else {
            continue;
        };
        println!("fetching the newest {package} of PyPI");
        let environment = Environment::at(programs.environment(peer));
        let wanted = ["--upgrade", package];
        match environment.install(&Terminal::default(), &wanted) {
            Outcome::Passed => {}
            Outcome::Failed(reason) | Outcome::NotRun(reason) => return Err(reason),
        }
    }
    Ok(())
}
