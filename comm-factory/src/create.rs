//! Creates the communicator of the chosen backend.

#[cfg(any(feature = "mpi", feature = "tcp", feature = "shm"))]
use comm_kit::{InitError, InitErrorKind};
use comm_local::LocalBackend;

use crate::backend::CommBackend;
use crate::error::BackendError;
use crate::kind::{BackendKind, COMPILED};
#[cfg(any(feature = "mpi", feature = "tcp", feature = "shm"))]
use crate::launcher::announced_by;
use crate::name::Name;
#[cfg(feature = "tcp")]
use crate::select::Filled;
#[cfg(not(all(feature = "mpi", feature = "tcp", feature = "shm")))]
use crate::select::not_available;
use crate::select::{Selection, environment, select};

/// Creates the communicator that the environment selects, see [`select`].
///
/// The same program runs alone and under `comm-run`, `mpiexec` or `srun`, without changes.
///
/// You can call it several times to give each thread its own communicator: one call after another, in the same order
/// on all ranks.
///
/// # Errors
///
/// See [`BackendError`], in the order of its variants.
///
/// ```
/// use comm_factory::api::{CommunicatorExt, ReduceOp};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let comm = comm_factory::create_communicator()?;
/// let ranks = comm.allreduce_scalar(1_u64, ReduceOp::Sum)?;
/// println!("{ranks} ranks on {}", comm.name());
/// # Ok(())
/// # }
/// ```
pub fn create_communicator() -> Result<CommBackend, BackendError> {
    create_communicator_with(BackendKind::Auto)
}

/// Creates the communicator that `kind` selects.
///
/// Logs a warning for every variable with a name like ours that no code reads, because the name is probably misspelt.
///
/// # Errors
///
/// See [`BackendError`], in the order of its variants.
#[cfg_attr(
    not(any(feature = "tcp", feature = "shm")),
    expect(
        clippy::needless_pass_by_value,
        reason = "some variants own a configuration"
    )
)]
pub fn create_communicator_with(kind: BackendKind) -> Result<CommBackend, BackendError> {
    for unknown in comm_kit::variables::unknown_here() {
        tracing::warn!("{unknown}");
    }
    match kind {
        BackendKind::Auto => {
            let selection = select(&environment()?, COMPILED)?;
            start(&selection)
        }
        #[cfg(feature = "mpi")]
        BackendKind::Mpi => mpi(),
        #[cfg(not(feature = "mpi"))]
        BackendKind::Mpi => Err(not_available(Name::Mpi, COMPILED)),
        #[cfg(feature = "tcp")]
        BackendKind::Tcp(config) => tcp(Ok(config)),
        #[cfg(feature = "shm")]
        BackendKind::Shm(config) => shm(Ok(config)),
        BackendKind::Local => Ok(LocalBackend.into()),
    }
}

/// Starts the backend; it reads its own variables.
fn start(selection: &Selection) -> Result<CommBackend, BackendError> {
    match selection.backend {
        #[cfg(feature = "mpi")]
        Name::Mpi => mpi(),
        #[cfg(feature = "tcp")]
        Name::Tcp => {
            let pair = |filled: &Filled| (filled.variable.to_owned(), filled.value.clone());
            let filled = selection.filled.iter().map(pair).collect();
            tcp(comm_tcp::TcpConfig::from_env_and(&filled))
        }
        #[cfg(feature = "shm")]
        Name::Shm => shm(comm_shm::ShmConfig::from_env()),
        Name::Local => Ok(LocalBackend.into()),
        #[cfg(not(all(feature = "mpi", feature = "tcp", feature = "shm")))]
        absent => Err(not_available(absent, COMPILED)),
    }
}

#[cfg(feature = "mpi")]
fn mpi() -> Result<CommBackend, BackendError> {
    let comm = comm_mpi::MpiConfig::from_env().and_then(comm_mpi::FerrompiBackend::init);
    comm.map(Into::into)
        .map_err(|error| failed(Name::Mpi, error))
}

#[cfg(feature = "tcp")]
fn tcp(config: Result<comm_tcp::TcpConfig, InitError>) -> Result<CommBackend, BackendError> {
    let comm = config.and_then(comm_tcp::TcpBackend::connect);
    comm.map(Into::into)
        .map_err(|error| failed(Name::Tcp, error))
}

#[cfg(feature = "shm")]
fn shm(config: Result<comm_shm::ShmConfig, InitError>) -> Result<CommBackend, BackendError> {
    let comm = config.and_then(comm_shm::ShmBackend::attach);
    comm.map(Into::into)
        .map_err(|error| failed(Name::Shm, error))
}

#[cfg(any(feature = "mpi", feature = "tcp", feature = "shm"))]
fn failed(backend: Name, error: InitError) -> BackendError {
    let backend = backend.to_string();
    // A variable that is set is wrong, not missing: then only the whole message tells what to do.
    let is_set = |name: &String| {
        std::env::var_os(name)
            .is_some_and(|value| !value.as_encoded_bytes().trim_ascii().is_empty())
    };
    match error.kind {
        InitErrorKind::MissingConfiguration if !error.variables.iter().any(is_set) => {
            BackendError::MissingConfiguration {
                backend,
                missing_vars: error.variables,
                announced_by: environment().ok().as_ref().and_then(announced_by),
            }
        }
        _ => BackendError::InitializationFailed {
            backend,
            source: Box::new(error),
        },
    }
}

#[cfg(all(test, any(feature = "mpi", feature = "tcp", feature = "shm")))]
mod tests {
    use super::*;

    /// Variables that are not set can be listed; for a variable with a wrong value, only the message tells what is wrong.
    #[test]
    fn a_variable_is_missing_only_if_it_is_not_set() {
        let with = |variable: &str| {
            let mut error = InitError::invalid(&[variable], "no rank");
            error.kind = InitErrorKind::MissingConfiguration;
            failed(Name::Local, error)
        };
        let missing = with("COMM_FACTORY_TEST_NOBODY_SETS_THIS");
        assert!(
            matches!(&missing, BackendError::MissingConfiguration { missing_vars, .. } if missing_vars.len() == 1),
            "{missing:?}"
        );
        // Set in every process that cargo starts.
        let wrong = with("PATH");
        assert!(
            matches!(wrong, BackendError::InitializationFailed { .. }),
            "{wrong:?}"
        );
    }
}
