//! Chooses the backend from variables alone.

use std::collections::BTreeMap;

use comm_kit::config::value;
use comm_kit::launcher::announced;

use crate::error::BackendError;
use crate::launcher;
use crate::name::Name;

/// The variables that a choice is based on.
pub type Variables = BTreeMap<String, String>;

/// The chosen backend, the reason, and the variables with which it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The backend.
    pub backend: Name,
    /// The variable that decided; `None` if no variable selects a backend other than `local`.
    pub decided_by: Option<String>,
    /// Variables of the chosen backend that were filled in from those of other launchers.
    pub filled: Vec<Filled>,
    /// The missing variables without which the backend will not start.
    pub missing: Vec<String>,
}

/// The origin of a value for a variable that was not set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The variable of the backend.
    pub variable: &'static str,
    /// The value it gets.
    pub value: String,
    /// The variable it was taken from.
    pub from: &'static str,
}

/// Reads the variables that [`select`] needs from the environment of this process.
///
/// # Errors
///
/// [`BackendError::InitializationFailed`] for a value that is not UTF-8: a value is never read lossily.
pub fn environment() -> Result<Variables, BackendError> {
    let own = [REQUESTED, "COBRE_SHM_NAME"].into_iter();
    let names: Vec<&str> = own.chain(launcher::variables()).collect();
    comm_kit::config::environment(&names).map_err(|error| BackendError::InitializationFailed {
        backend: "auto".to_owned(),
        source: Box::new(error),
    })
}

/// The variable with the backend that the user wants.
const REQUESTED: &str = "COBRE_COMM_BACKEND";

/// Chooses a backend among `compiled`.
///
/// A pure function: the same variables and backends give the same answer, and nothing is opened.
/// `COBRE_COMM_BACKEND` decides if it names a backend. Otherwise the first of these that is
/// compiled in and matches the environment:
///
/// 1. `mpi`: an MPI launcher or a SLURM step started this process;
/// 2. `tcp`: one of `COBRE_TCP_COORDINATOR`, `COBRE_TCP_RANK`, `COBRE_TCP_SIZE` is set;
/// 3. `shm`: `COBRE_SHM_NAME` is set;
/// 4. `local`, unless a launcher announced more than one rank, or a rank without a size: N separate jobs of
///    one rank each are never the intention.
///
/// # Errors
///
/// See [`BackendError`], in the order of its variants. Of the last, only [`BackendError::InitializationFailed`] for
/// variables that contradict each other.
pub fn select(variables: &Variables, compiled: &[Name]) -> Result<Selection, BackendError> {
    let requested = value(variables, REQUESTED).unwrap_or("auto");
    if requested.eq_ignore_ascii_case("auto") {
        return auto(variables, compiled);
    }
    let Some(backend) = Name::parse(requested) else {
        return Err(BackendError::InvalidBackend {
            requested: requested.to_owned(),
            available: names(compiled),
        });
    };
    if !compiled.contains(&backend) {
        return Err(not_available(backend, compiled));
    }
    chosen(backend, Some(REQUESTED), variables)
}

fn auto(variables: &Variables, compiled: &[Name]) -> Result<Selection, BackendError> {
    let spoken_for = [
        (Name::Mpi, launcher::mpi_variable(variables)),
        (Name::Tcp, launcher::first_set(variables, &TCP_VARIABLES)),
        (
            Name::Shm,
            launcher::first_set(variables, &["COBRE_SHM_NAME"]),
        ),
    ];
    for (backend, variable) in spoken_for {
        if variable.is_some() && compiled.contains(&backend) {
            return chosen(backend, variable, variables);
        }
    }
    let announced = announced(variables)
        .map_err(|error| BackendError::contradiction(Name::Local, error.message))?;
    let Some(announced) = announced else {
        return chosen(Name::Local, None, variables);
    };
    // A launcher announced more than one rank, or an unknown number, and no backend that could
    // connect them is both compiled in and configured.
    let wanted = launcher::backends(announced.launcher.family);
    if let Some(&backend) = wanted.iter().find(|backend| compiled.contains(backend)) {
        let mut missing_vars = chosen(backend, None, variables)?.missing;
        if missing_vars.is_empty() {
            // All variables of the backend are known; only the one that selects it is missing.
            missing_vars.push(String::from(REQUESTED));
        }
        return Err(BackendError::MissingConfiguration {
            backend: backend.to_string(),
            missing_vars,
            announced_by: Some(launcher::announcement(&announced, variables)),
        });
    }
    Err(not_available(wanted[0], compiled))
}

const TCP_VARIABLES: [&str; 3] = ["COBRE_TCP_COORDINATOR", "COBRE_TCP_RANK", "COBRE_TCP_SIZE"];

fn chosen(
    backend: Name,
    decided_by: Option<&str>,
    variables: &Variables,
) -> Result<Selection, BackendError> {
    let filled = match backend {
        Name::Tcp => launcher::fill_tcp(variables)?,
        Name::Mpi | Name::Shm | Name::Local => Vec::new(),
    };
    Ok(Selection {
        backend,
        decided_by: decided_by.map(str::to_owned),
        missing: launcher::missing(backend, variables, &filled),
        filled,
    })
}

pub(crate) fn not_available(backend: Name, compiled: &[Name]) -> BackendError {
    BackendError::BackendNotAvailable {
        requested: backend.to_string(),
        available: names(compiled),
    }
}

fn names(compiled: &[Name]) -> Vec<String> {
    compiled.iter().map(ToString::to_string).collect()
}
