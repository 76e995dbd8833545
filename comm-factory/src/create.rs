//! From a choice to a communicator.

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

/// Creates the communicator that the environment asks for, see [`select`].
///
/// The same program runs alone, under `comm-run`, `mpiexec` or `srun`, without being touched.
///
/// It may be called several times, so that each thread has a communicator of its own: one after the other, in the same order
/// on all ranks.
///
/// # Errors
///
/// As [`BackendError`] says, in its order.
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

/// Creates the communicator that `kind` asks for.
///
/// A variable that is named like ours and that nothing reads is warned of: its name is misspelt.
///
/// # Errors
///
/// As [`BackendError`] says, in its order.
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

/// Starts the backend, which reads its own variables.
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
    // One that is set is wrong, not missing: then only the whole message says what to do.
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

    /// What is not set can be listed; what is set is wrong, and only the message says why.
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
        // Every process that cargo starts has one.
        let wrong = with("PATH");
        assert!(
            matches!(wrong, BackendError::InitializationFailed { .. }),
            "{wrong:?}"
        );
    }
}
