//! Fetches the newest MPI libraries, each into an environment of its own below `target`: both bring an `mpiexec`.

use super::build::Programs;
use super::contender::Peer;
use crate::process::Terminal;
use crate::python::environment::Environment;
use crate::report::Outcome;
use crate::tools::PYTHON;

/// Makes the environments, or brings those that are there up to date.
///
/// # Errors
///
/// One line: what is missing, or why a package could not be installed.
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
