//! Turns Rust errors into Python exceptions.

use comm_factory::BackendError;
use comm_factory::api::{CommError, FailureKind};
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

use crate::interrupt;

/// The classes of `cobre_comm._errors`.
struct Classes {
    comm: Py<PyType>,
    peer_lost: Py<PyType>,
    timed_out: Py<PyType>,
    mismatch: Py<PyType>,
    refused: Py<PyType>,
    aborted: Py<PyType>,
    backend: Py<PyType>,
}

fn classes(py: Python<'_>) -> PyResult<&'static Classes> {
    static CLASSES: PyOnceLock<Classes> = PyOnceLock::new();
    CLASSES.get_or_try_init(py, || {
        let module = py.import("cobre_comm._errors")?;
        let class = |name: &str| -> PyResult<Py<PyType>> {
            Ok(module.getattr(name)?.cast_into::<PyType>()?.unbind())
        };
        Ok(Classes {
            comm: class("CommError")?,
            peer_lost: class("PeerLost")?,
            timed_out: class("TimedOut")?,
            mismatch: class("Mismatch")?,
            refused: class("Refused")?,
            aborted: class("Aborted")?,
            backend: class("BackendError")?,
        })
    })
}

/// Turns the error of a collective into an exception. An exception that a signal handler raised inside the call replaces it.
#[cold]
pub(crate) fn failed(
    py: Python<'_>,
    operation: &'static str,
    error: &CommError,
    raised: Option<PyErr>,
) -> PyErr {
    let error = exception(py, operation, error).unwrap_or_else(|error| error);
    instead(py, error, raised)
}

/// Returns the exception that a signal handler raised, with the error of the call it ended as its cause; without one, the error itself.
fn instead(py: Python<'_>, error: PyErr, raised: Option<PyErr>) -> PyErr {
    match raised {
        Some(raised) => {
            raised.set_cause(py, Some(error));
            raised
        }
        None => error,
    }
}

fn exception(py: Python<'_>, operation: &'static str, error: &CommError) -> PyResult<PyErr> {
    let classes = classes(py)?;
    let (class, kind, rank) = match error {
        CommError::CollectiveFailed { kind, rank, .. } => {
            let class = match kind {
                FailureKind::PeerLost => &classes.peer_lost,
                FailureKind::TimedOut => &classes.timed_out,
                FailureKind::Mismatch => &classes.mismatch,
                FailureKind::Refused => &classes.refused,
                FailureKind::Aborted => &classes.aborted,
                _ => &classes.comm,
            };
            (class, format!("{kind:?}"), *rank)
        }
        CommError::InvalidCommunicator { .. } => {
            (&classes.comm, "InvalidCommunicator".to_owned(), None)
        }
        CommError::AllocationFailed { .. } => {
            return Ok(PyMemoryError::new_err(error.to_string()));
        }
        // Arguments are checked above the byte level first; these are errors that those checks missed.
        _ => return Ok(PyValueError::new_err(error.to_string())),
    };
    let message = match error {
        CommError::InvalidCommunicator { .. } => forked(operation),
        _ => error.to_string(),
    };
    let value = class.bind(py).call1((message, operation, kind, rank))?;
    Ok(PyErr::from_value(value))
}

/// Returns the message for a forked child of the process that connected.
fn forked(operation: &str) -> String {
    format!(
        "{operation}: this process is no rank, because it was forked from the rank that connected (multiprocessing with the start method fork, \
        or os.fork); use multiprocessing.get_context(\"spawn\"), or communicate in the parent"
    )
}

/// Returns the exception for a communicator that could not be created.
#[cold]
pub(crate) fn not_connected(py: Python<'_>, error: &BackendError, by_argument: bool) -> PyErr {
    let message = match error {
        BackendError::BackendNotAvailable {
            requested,
            available,
        } => format!(
            "COBRE_COMM_BACKEND: this package has no {requested}, it has {}; ranks that mpiexec or srun starts communicate over tcp with \
            connect() and without this setting",
            available.join(", ")
        ),
        _ => error.to_string(),
    };
    let message = match message.strip_prefix("COBRE_COMM_BACKEND:") {
        Some(rest) if by_argument => format!("backend:{rest}"),
        _ => message,
    };
    let exception = classes(py).and_then(|classes| classes.backend.bind(py).call1((message,)));
    let error = match exception {
        Ok(value) => PyErr::from_value(value),
        Err(error) => error,
    };
    instead(py, error, interrupt::raised())
}
