//! `broadcast`: sends the array of one rank to all ranks, in place.

use comm_factory::api::{Communicator, Label};
use pyo3::prelude::*;

use crate::argument::{array, fill, rank};
use crate::call::{checked, run};
use crate::memory::{Access, View};
use crate::numpy::{check_plain, dtype_of, numpy};

const OPERATION: &str = "broadcast";

/// Sends the contents of `values` of the root to every rank.
#[inline]
pub(crate) fn broadcast<'py>(
    comm: &dyn Communicator,
    values: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
) -> PyResult<()> {
    let py = values.py();
    let mut view = View::new();
    let prepared = prepare(comm, values, root, &mut view);
    let (root, label) = checked(py, comm, OPERATION, prepared)?;
    let itemsize = view.itemsize();
    let bytes = view.bytes_mut();
    run(py, OPERATION, || {
        label.on(|| comm.broadcast_bytes(bytes, itemsize, root))
    })
}

#[inline]
fn prepare<'py>(
    comm: &dyn Communicator,
    values: &Bound<'py, PyAny>,
    root: Option<&Bound<'py, PyAny>>,
    view: &mut View<'py>,
) -> PyResult<(usize, Label)> {
    let numpy = numpy(values.py())?;
    let root = rank("root", root, comm.size())?;
    let values = array(numpy, "array", values, Access::Write)?;
    let label = check_plain(numpy, "array", &dtype_of(&values)?)?;
    fill(view, "array", &values, Access::Write)?;
    Ok((root, label))
}
