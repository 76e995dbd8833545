//! Python objects, pickled, for `broadcast_object` and `allgather_object`.

use comm_factory::api::{Blocks, Communicator, Label};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyList};

use crate::argument::rank;
use crate::call::{checked, run};
use crate::gather::words;

/// Distinguishes pickles from arrays with the same number of bytes.
const PICKLE: Label = Label::hashed(0x7069_636b_6c65);

/// Sends an object of the root to every rank.
pub(crate) fn broadcast_object<'py>(
    comm: &dyn Communicator,
    object: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    const OPERATION: &str = "broadcast_object";
    let py = object.py();
    let root = checked(py, comm, OPERATION, rank("root", root, comm.size()))?;
    if comm.rank() == root {
        let pickled = checked(py, comm, OPERATION, pickle(object))?;
        let mut bytes = pickled.as_bytes().to_vec();
        let mut length = (bytes.len() as u64).to_ne_bytes();
        run(py, OPERATION, || {
            PICKLE.on(|| {
                comm.broadcast_bytes(&mut length, size_of::<u64>(), root)?;
                comm.broadcast_bytes(&mut bytes, 1, root)
            })
        })?;
        return Ok(object.clone());
    }
    let mut length = [0; 8];
    run(py, OPERATION, || {
        PICKLE.on(|| comm.broadcast_bytes(&mut length, size_of::<u64>(), root))
    })?;
    let length = usize::try_from(u64::from_ne_bytes(length));
    let mut failed = None;
    let bytes = PyBytes::new_with(py, length.unwrap_or(usize::MAX), |bytes| {
        let received = run(py, OPERATION, || {
            PICKLE.on(|| comm.broadcast_bytes(bytes, 1, root))
        });
        failed = received.err();
        Ok(())
    });
    if let Some(failed) = failed {
        return Err(failed);
    }
    let bytes = checked(py, comm, OPERATION, bytes)?;
    unpickle(bytes.into_any())
}

/// Gathers one object from every rank.
pub(crate) fn allgather_object<'py>(
    comm: &dyn Communicator,
    object: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyList>> {
    const OPERATION: &str = "allgather_object";
    let py = object.py();
    let pickled = checked(py, comm, OPERATION, pickle(object))?;
    let send = pickled.as_bytes();
    let lengths = words(py, comm, OPERATION, [send.len() as u64, 0])?;
    let counts: PyResult<Vec<usize>> = lengths
        .iter()
        .map(|&[length, _]| Ok(usize::try_from(length)?))
        .collect();
    let counts = counts?;
    let mut displs = Vec::with_capacity(counts.len());
    let mut total = 0_usize;
    for &count in &counts {
        displs.push(total);
        total = total.saturating_add(count);
    }
    let mut failed = None;
    let all = PyBytes::new_with(py, total, |recv| {
        let gathered = run(py, OPERATION, || {
            PICKLE.on(|| comm.allgatherv_bytes(send, recv, Blocks::new(&counts, &displs), 1))
        });
        failed = gathered.err();
        Ok(())
    });
    if let Some(failed) = failed {
        return Err(failed);
    }
    let all = checked(py, comm, OPERATION, all)?;
    let objects = PyList::empty(py);
    for (&count, &displ) in counts.iter().zip(&displs) {
        let bytes = PyBytes::new(py, &all.as_bytes()[displ..displ + count]);
        objects.append(unpickle(bytes.into_any())?)?;
    }
    Ok(objects)
}

fn pickle<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
    static DUMPS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = object.py();
    let dumps = DUMPS.get_or_try_init(py, || function(py, "dumps"))?;
    // The newest protocol of the oldest supported Python, because the ranks of a job may run different versions.
    let pickled = dumps.bind(py).call1((object, 5))?;
    Ok(pickled.cast_into()?)
}

fn unpickle(bytes: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    static LOADS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = bytes.py();
    let loads = LOADS.get_or_try_init(py, || function(py, "loads"))?;
    loads.bind(py).call1((bytes,))
}

fn function(py: Python<'_>, name: &str) -> PyResult<Py<PyAny>> {
    Ok(py.import("pickle")?.getattr(name)?.unbind())
}
