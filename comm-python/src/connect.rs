//! `connect`: creates a communicator from a name and settings.

use std::collections::BTreeMap;

use comm_factory::shm::ShmConfig;
use comm_factory::tcp::TcpConfig;
use comm_factory::{
    BackendError, BackendKind, Name, Variables, available_backends, create_communicator_with,
    environment, select,
};
use comm_kit::InitError;
use comm_kit::config;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

use crate::argument::described;
use crate::communicator::Communicator;
use crate::errors;

/// The settings of a backend and the variables that they replace.
type Settings = &'static [(&'static str, &'static str)];

const SHM: Settings = &[
    ("name", "COBRE_SHM_NAME"),
    ("rank", "COBRE_SHM_RANK"),
    ("size", "COBRE_SHM_SIZE"),
    ("timeout", "COBRE_SHM_TIMEOUT_SECS"),
    ("connect_timeout", "COBRE_SHM_CONNECT_TIMEOUT_MS"),
    ("job_id", "COBRE_JOB_ID"),
];

const TCP: Settings = &[
    ("coordinator", "COBRE_TCP_COORDINATOR"),
    ("port", "COBRE_TCP_PORT"),
    ("rank", "COBRE_TCP_RANK"),
    ("size", "COBRE_TCP_SIZE"),
    ("timeout", "COBRE_TCP_TIMEOUT_SECS"),
    ("connect_timeout", "COBRE_TCP_CONNECT_TIMEOUT_MS"),
    ("bind_addr", "COBRE_TCP_BIND_ADDR"),
    ("worker_ports", "COBRE_TCP_WORKER_PORTS"),
    ("secret", "COBRE_TCP_SECRET"),
    ("secret_file", "COBRE_TCP_SECRET_FILE"),
    ("insecure", "COBRE_TCP_INSECURE"),
    ("encrypt", "COBRE_TCP_ENCRYPT"),
    ("listen_fd", "COBRE_TCP_LISTEN_FD"),
    ("job_id", "COBRE_JOB_ID"),
];

/// The settings that a program may pass without knowing its backend; a single process ignores them, because it never waits.
const LOCAL: Settings = &[("timeout", ""), ("connect_timeout", ""), ("job_id", "")];

/// Joins the job that the environment describes, and returns its communicator.
///
/// Without ``backend``, the environment variables of the launcher select it; a program that is started alone gets ``"local"``, with one rank.
/// ``backend`` is ``"shm"``, ``"tcp"`` or ``"local"``. A setting replaces the environment variable of that name: ``size=4`` replaces
/// ``COBRE_SHM_SIZE`` or ``COBRE_TCP_SIZE``. ``timeout`` and ``connect_timeout`` are in seconds; a timeout of 0 means no timeout.
///
/// | backend | settings |
/// |---|---|
/// | shm | name, rank, size, timeout, connect_timeout, job_id |
/// | tcp | coordinator, port, rank, size, timeout, connect_timeout, bind_addr, worker_ports, secret, secret_file, insecure, encrypt, listen_fd, job_id |
///
/// >>> import cobre_comm as cc
/// >>> cc.connect("local")
/// <cobre_comm.Communicator rank 0 of 1 on local>
#[pyfunction]
#[pyo3(signature = (backend=None, **settings))]
pub(crate) fn connect(
    py: Python<'_>,
    backend: Option<&Bound<'_, PyAny>>,
    settings: Option<&Bound<'_, PyDict>>,
) -> PyResult<Communicator> {
    let name = match backend {
        None => None,
        Some(name) => Some(name.extract::<String>().map_err(|_| {
            PyTypeError::new_err(format!(
                "backend: {} is no name; pass \"shm\", \"tcp\" or \"local\", or omit it to let the environment decide",
                described(name)
            ))
        })?),
    };
    let refused = |error: BackendError| errors::not_connected(py, &error, name.is_some());
    let mut variables = environment().map_err(refused)?;
    if let Some(name) = &name {
        variables.insert("COBRE_COMM_BACKEND".to_owned(), name.clone());
    }
    let compiled: Vec<Name> = available_backends()
        .iter()
        .filter_map(|name| Name::parse(name))
        .collect();
    let selection = select(&variables, &compiled).map_err(refused)?;
    let known = match selection.backend {
        Name::Shm => SHM,
        Name::Tcp => TCP,
        Name::Local | Name::Mpi => LOCAL,
    };
    let set = read(settings, selection.backend, known)?;
    let mut map = config::environment(
        &known
            .iter()
            .map(|(_, variable)| *variable)
            .filter(|v| !v.is_empty())
            .collect::<Vec<_>>(),
    )
    .map_err(|error| refused(failed(selection.backend, error)))?;
    for filled in &selection.filled {
        config::fill(&mut map, filled.variable, &filled.value);
    }
    map.extend(set);
    let kind = kind(selection.backend, &map).map_err(refused)?;
    let comm = py
        .detach(|| create_communicator_with(kind))
        .map_err(refused)?;
    Ok(Communicator::of_job(comm))
}

fn kind(backend: Name, map: &Variables) -> Result<BackendKind, BackendError> {
    Ok(match backend {
        Name::Mpi => BackendKind::Mpi,
        Name::Tcp => {
            BackendKind::Tcp(TcpConfig::from_map(map).map_err(|error| failed(backend, error))?)
        }
        Name::Shm => {
            BackendKind::Shm(ShmConfig::from_map(map).map_err(|error| failed(backend, error))?)
        }
        Name::Local => BackendKind::Local,
    })
}

fn failed(backend: Name, error: InitError) -> BackendError {
    BackendError::InitializationFailed {
        backend: backend.to_string(),
        source: Box::new(error),
    }
}

/// Converts the settings of a program to the values of variables.
fn read(
    settings: Option<&Bound<'_, PyDict>>,
    backend: Name,
    known: Settings,
) -> PyResult<BTreeMap<String, String>> {
    let mut map = BTreeMap::new();
    for (name, value) in settings.into_iter().flatten() {
        let name: String = name.extract()?;
        let Some(&(name, variable)) = known.iter().find(|(known, _)| *known == name) else {
            let known: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            return Err(PyTypeError::new_err(format!(
                "{name}: the {backend} backend has no such setting; it has {}",
                known.join(", ")
            )));
        };
        map.insert(variable.to_owned(), text(name, &value)?);
    }
    Ok(map)
}

/// Converts one setting to the value of its variable.
fn text(name: &'static str, value: &Bound<'_, PyAny>) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() {
        return Ok(String::from(if value.is_truthy()? { "1" } else { "0" }));
    }
    let is_number = value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>();
    if name == "connect_timeout" && is_number {
        let seconds: f64 = value.extract()?;
        if !(0.0..=1e9).contains(&seconds) {
            return Err(PyValueError::new_err(format!(
                "{name}: {} is no number of seconds; pass a number from 0 to 1e9",
                value.repr()?
            )));
        }
        return Ok(format!("{:.0}", (seconds * 1000.0).ceil()));
    }
    if is_number || value.is_instance_of::<PyString>() || value.hasattr("__fspath__")? {
        return value.str()?.extract();
    }
    Err(PyTypeError::new_err(format!(
        "{name}: {} is no value for a setting; pass a number, a string or a bool",
        described(value)
    )))
}
