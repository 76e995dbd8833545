//! One call of the byte level: releases the lock of the interpreter, and announces a refusal.

use comm_factory::api::{CommError, Communicator, FailureKind};
use pyo3::prelude::*;

use crate::{errors, interrupt, place};

/// Runs a collective with the lock of the interpreter released.
#[inline]
pub(crate) fn run<T: Send>(
    py: Python<'_>,
    operation: &'static str,
    collective: impl FnOnce() -> Result<T, CommError> + Send,
) -> PyResult<T> {
    let result = py.detach(|| place::told(collective));
    let raised = interrupt::raised();
    match (result, raised) {
        (Ok(value), None) => Ok(value),
        // The call finished before the handler could end it.
        (Ok(_), Some(raised)) => Err(raised),
        (Err(error), raised) => Err(errors::failed(py, operation, &error, raised)),
    }
}

/// Returns the result of an argument check; if it failed, announces the refusal, so that the other ranks do not wait.
#[inline]
pub(crate) fn checked<T>(
    py: Python<'_>,
    comm: &dyn Communicator,
    operation: &'static str,
    checked: PyResult<T>,
) -> PyResult<T> {
    checked.map_err(|error| refused(py, comm, operation, error))
}

/// Announces to the other ranks that this one refuses its arguments: [`Refused`](FailureKind::Refused) with the text of the exception.
#[cold]
fn refused(
    py: Python<'_>,
    comm: &dyn Communicator,
    operation: &'static str,
    error: PyErr,
) -> PyErr {
    let words = error.value(py).str().map_or_else(
        |_| String::from("its exception has no text"),
        |text| text.to_string_lossy().into_owned(),
    );
    py.detach(|| {
        let refusal = CommError::failed(operation, FailureKind::Refused, None, words);
        place::told(|| comm.refuse(operation.into(), &refusal));
    });
    error
}
