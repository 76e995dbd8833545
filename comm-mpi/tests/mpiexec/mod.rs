//! Starts ranks with the `mpiexec` of the MPI that this program was built with.

use std::env;

use comm_conformance::{Failure, Launcher};

/// The launcher command of a world.
///
/// `MPIEXEC` names another program than the one that belongs to the library, `MPIEXEC_ARGS` adds arguments,
/// separated by blanks. More ranks than cores are permitted, and so is root.
pub(crate) fn launcher(world: usize) -> Result<Launcher, Failure> {
    let library = ferrompi::Mpi::library_version()?;
    let open_mpi = library.starts_with("Open MPI");
    let program = env::var("MPIEXEC").unwrap_or_else(|_| find(open_mpi));
    let mut arguments: Vec<String> = Vec::new();
    if open_mpi {
        let flags = [
            "--allow-run-as-root",
            "--oversubscribe",
            "--bind-to",
            "none",
        ];
        arguments.extend(flags.map(str::to_owned));
    }
    let more = env::var("MPIEXEC_ARGS").unwrap_or_default();
    arguments.extend(more.split_whitespace().map(str::to_owned));
    Ok(Launcher::mpi(program, arguments, world))
}

/// Returns the name of a library's launcher where both libraries are installed, or the common one.
fn find(open_mpi: bool) -> String {
    let own = if open_mpi {
        "mpiexec.openmpi"
    } else {
        "mpiexec.mpich"
    };
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| directory.join(own).is_file());
    if found { own } else { "mpiexec" }.to_owned()
}
