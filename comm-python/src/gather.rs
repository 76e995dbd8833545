//! `allgather` and `allgatherv`: the arrays of all ranks, on every rank.

use comm_factory::api::{Blocks, CommError, Communicator, FailureKind, Label};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use crate::argument::{array, described, fill, numbers};
use crate::call::{checked, run};
use crate::memory::{Access, View};
use crate::numpy::{Numpy, check_plain, dtype_of, mix, numpy, signature};

/// Gathers arrays of one shape: the result has a new first axis, one entry per rank.
pub(crate) fn allgather<'py>(
    comm: &dyn Communicator,
    x: &Bound<'py, PyAny>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyAny>> {
    const OPERATION: &str = "allgather";
    let py = x.py();
    let numpy = numpy(py)?;
    let (mut send, mut recv) = (View::new(), View::new());
    let mut prepare = || {
        let x = array(numpy, "x", x, Access::Read)?;
        let dtype = dtype_of(&x)?;
        let label = check_plain(numpy, "x", &dtype)?;
        fill(&mut send, "x", &x, Access::Read)?;
        let size = isize::try_from(comm.size())?;
        let shape: Vec<isize> = [&[size], send.shape()].concat();
        let out = target(numpy, out, &dtype, &shape, &mut recv)?;
        Ok((out, label))
    };
    let prepared = prepare();
    let (out, label) = checked(py, comm, OPERATION, prepared)?;
    let element = (send.itemsize(), label);
    let counts = vec![send.len() / send.itemsize(); comm.size()];
    gather_blocks(py, comm, OPERATION, &send, &mut recv, &counts, element)?;
    Ok(out)
}

/// Gathers rows: arrays that may differ in the length of their first axis, in rank order.
pub(crate) fn allgatherv<'py>(
    comm: &dyn Communicator,
    send: &Bound<'py, PyAny>,
    counts: Option<&Bound<'py, PyAny>>,
    out: Option<&Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    const OPERATION: &str = "allgatherv";
    let py = send.py();
    let numpy = numpy(py)?;
    let mut view = View::new();
    let prepared = Rows::new(numpy, send, &mut view);
    let rows = checked(py, comm, OPERATION, prepared)?;
    let counts = match counts {
        Some(counts) => {
            let counts = expected(counts, comm, rows.count);
            checked(py, comm, OPERATION, counts)?
        }
        None => rows.counts(py, comm, numpy, &view)?,
    };
    let mut recv = View::new();
    let total = counts
        .iter()
        .fold(0_usize, |sum, &count| sum.saturating_add(count));
    let mut prepare = || {
        let total = isize::try_from(total)?;
        let shape: Vec<isize> = [&[total], &view.shape()[1..]].concat();
        target(numpy, out, &rows.dtype, &shape, &mut recv)
    };
    let prepared = prepare();
    let out = checked(py, comm, OPERATION, prepared)?;
    let element = (rows.bytes, rows.label);
    gather_blocks(py, comm, OPERATION, &view, &mut recv, &counts, element)?;
    let counts = PyList::new(py, counts)?;
    let counts = numpy.asarray.bind(py).call1((counts, &numpy.intp))?;
    Ok((out, counts))
}

/// The contribution of one rank to an `allgatherv`.
struct Rows<'py> {
    dtype: Bound<'py, PyAny>,
    label: Label,
    count: usize,
    /// The bytes of one row.
    bytes: usize,
}

impl<'py> Rows<'py> {
    fn new(numpy: &Numpy, send: &Bound<'py, PyAny>, view: &mut View<'py>) -> PyResult<Self> {
        let send = array(numpy, "send", send, Access::Read)?;
        let dtype = dtype_of(&send)?;
        let label = check_plain(numpy, "send", &dtype)?;
        fill(view, "send", &send, Access::Read)?;
        let [count, row @ ..] = view.shape() else {
            return Err(PyValueError::new_err(
                "send: it has no axis to gather along; use allgather, or pass np.atleast_1d(send)",
            ));
        };
        let elements: usize = row.iter().map(|length| length.unsigned_abs()).product();
        Ok(Self {
            dtype,
            label,
            count: count.unsigned_abs(),
            bytes: elements * view.itemsize(),
        })
    }

    /// Gathers the number of rows of all ranks, and checks that the rows have the same shape and dtype.
    fn counts(
        &self,
        py: Python<'_>,
        comm: &dyn Communicator,
        numpy: &Numpy,
        view: &View<'_>,
    ) -> PyResult<Vec<usize>> {
        let row = &view.shape()[1..];
        let alike = signature(numpy, &self.dtype)?;
        let alike = row.iter().fold(mix(1, alike), |hash, length| {
            mix(hash, length.unsigned_abs() as u64)
        });
        let all = words(py, comm, "allgatherv", [self.count as u64, alike])?;
        let what = || format!("rows of shape {row:?} and dtype {}", self.dtype);
        agree(py, comm, "allgatherv", &all, what)?;
        Ok(all
            .iter()
            .map(|&[count, _]| usize::try_from(count).unwrap_or(usize::MAX))
            .collect())
    }
}

/// Gathers two words from every rank.
pub(crate) fn words(
    py: Python<'_>,
    comm: &dyn Communicator,
    operation: &'static str,
    mine: [u64; 2],
) -> PyResult<Vec<[u64; 2]>> {
    const BYTES: usize = size_of::<[u64; 2]>();
    let bytes = mine.map(u64::to_ne_bytes);
    let mut all = vec![[[0; 8]; 2]; comm.size()];
    let displs: Vec<usize> = (0..comm.size()).collect();
    let counts = vec![1; comm.size()];
    run(py, operation, || {
        let recv = all.as_flattened_mut().as_flattened_mut();
        // A signal handler may run this in the middle of another call that has set a label.
        Label::NONE.on(|| {
            comm.allgatherv_bytes(
                bytes.as_flattened(),
                recv,
                Blocks::new(&counts, &displs),
                BYTES,
            )
        })
    })?;
    let number = |pair: [[u8; 8]; 2]| pair.map(u64::from_ne_bytes);
    Ok(all.into_iter().map(number).collect())
}

/// Checks that the second word is the same on all ranks; if not, all ranks return an error.
pub(crate) fn agree(
    py: Python<'_>,
    comm: &dyn Communicator,
    operation: &'static str,
    all: &[[u64; 2]],
    mine: impl FnOnce() -> String,
) -> PyResult<()> {
    let Some(other) = all.iter().position(|[_, alike]| *alike != all[0][1]) else {
        return Ok(());
    };
    let message = format!(
        "its array differs from that of rank 0; this is rank {} with {}; pass arrays of one dtype and shape on all ranks (the first \
        axis of allgatherv and partitioned_array may differ); no data was exchanged and the communicator is still usable",
        comm.rank(),
        mine()
    );
    let error = CommError::failed(operation, FailureKind::Mismatch, Some(other), message);
    Err(crate::errors::failed(py, operation, &error, None))
}

/// Reads the argument `counts`.
fn expected(
    counts: &Bound<'_, PyAny>,
    comm: &dyn Communicator,
    mine: usize,
) -> PyResult<Vec<usize>> {
    let list = numbers(counts).map_err(|_| {
        PyTypeError::new_err(format!(
            "counts: {} is not a list of numbers of rows; pass one non-negative number for each rank, or omit it",
            described(counts)
        ))
    })?;
    let (rank, size) = (comm.rank(), comm.size());
    if list.len() != size {
        return Err(PyValueError::new_err(format!(
            "counts: it has {} numbers for {size} ranks; pass one for each rank",
            list.len()
        )));
    }
    if list[rank] != mine {
        return Err(PyValueError::new_err(format!(
            "counts: counts[{rank}] is {}, but send has {mine} rows on this rank; they must be equal",
            list[rank]
        )));
    }
    Ok(list)
}

/// Returns the array for the result: the argument `out`, if it fits, or a new array.
fn target<'py>(
    numpy: &Numpy,
    out: Option<&Bound<'py, PyAny>>,
    dtype: &Bound<'py, PyAny>,
    shape: &[isize],
    recv: &mut View<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = dtype.py();
    let Some(out) = out else {
        let result = numpy.empty(py, PyTuple::new(py, shape)?, dtype);
        let result = result.map_err(|error| no_result(numpy, shape, dtype, error))?;
        fill(recv, "out", &result, Access::Write)?;
        return Ok(result);
    };
    let target = array(numpy, "out", out, Access::Write)?;
    let its = dtype_of(&target)?;
    if !its.is(dtype) && !its.eq(dtype)? {
        return Err(PyTypeError::new_err(format!(
            "out: its dtype is {its}, but the data has {dtype}; pass np.empty({shape:?}, {dtype})"
        )));
    }
    fill(recv, "out", &target, Access::Write)?;
    if recv.shape() != shape {
        return Err(PyValueError::new_err(format!(
            "out: its shape is {:?}, but the result has {shape:?}; pass np.empty with the shape of the result",
            recv.shape()
        )));
    }
    Ok(out.clone())
}

/// Returns the exception for a result that cannot be allocated: `MemoryError` if there is no room (numpy raises another error for a size that no
/// machine could hold), or an error about too many axes.
#[cold]
fn no_result(numpy: &Numpy, shape: &[isize], dtype: &Bound<'_, PyAny>, error: PyErr) -> PyErr {
    let py = dtype.py();
    let told = if numpy.has_axes(py, shape.len()) {
        PyMemoryError::new_err(format!(
            "no memory for the result, of shape {shape:?} and dtype {dtype}: {}; gather less at once",
            error.value(py)
        ))
    } else {
        // Only `allgather` adds an axis.
        PyValueError::new_err(format!(
            "x: it has {} axes, and the result would have one more, too many for a numpy array; pass x.reshape(-1)",
            shape.len() - 1
        ))
    };
    told.set_cause(py, Some(error));
    told
}

/// Gathers consecutive blocks.
fn gather_blocks(
    py: Python<'_>,
    comm: &dyn Communicator,
    operation: &'static str,
    send: &View<'_>,
    recv: &mut View<'_>,
    counts: &[usize],
    (elem_size, label): (usize, Label),
) -> PyResult<()> {
    let starts = counts.iter().scan(0, |next, count| {
        let start = *next;
        *next += count;
        Some(start)
    });
    let displs: Vec<usize> = starts.collect();
    let copy = send.overlaps(recv).then(|| send.bytes().to_vec());
    let send = copy.as_deref().unwrap_or_else(|| send.bytes());
    let recv = recv.bytes_mut();
    run(py, operation, || {
        label.on(|| comm.allgatherv_bytes(send, recv, Blocks::new(counts, &displs), elem_size))
    })
}
