//! The communicator as Python sees it.

use comm_factory::api::Communicator as _;
use comm_factory::{BackendKind, CommBackend, create_communicator_with};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Performs collective operations among the ranks of one job.
#[derive(Debug)]
#[pyclass(module = "cobre_comm", frozen)]
pub(crate) struct Communicator {
    comm: CommBackend,
}

/// Creates the communicator that the environment asks for, or that of `backend`.
#[pyfunction]
#[pyo3(signature = (backend=None))]
pub(crate) fn connect(py: Python<'_>, backend: Option<&str>) -> PyResult<Communicator> {
    let kind = match backend {
        None | Some("auto") => BackendKind::Auto,
        Some("local") => BackendKind::Local,
        Some(other) => return Err(PyValueError::new_err(format!("backend: {other:?}"))),
    };
    let comm = py.detach(|| create_communicator_with(kind));
    let comm = comm.map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(Communicator { comm })
}

#[pymethods]
impl Communicator {
    /// The rank of this process, from 0 on.
    #[getter]
    fn rank(&self) -> usize {
        self.comm.rank()
    }

    /// The number of ranks.
    #[getter]
    fn size(&self) -> usize {
        self.comm.size()
    }

    /// The name of the backend.
    #[getter]
    fn backend(&self) -> &'static str {
        self.comm.name()
    }
}
