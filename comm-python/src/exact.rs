//! `exact_sum`: one number, or one per column; it does not matter which rank holds which rows.

use std::borrow::Cow;

use comm_exact::ExactSum;
use comm_factory::api::bytemuck::{Pod, cast_slice, pod_collect_to_vec, try_cast_slice};
use comm_factory::api::{Communicator, ScalarKind};
use pyo3::exceptions::{PyMemoryError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyFloat, PyInt, PyTuple};

use crate::argument::{array, described, fill, reducible};
use crate::call::{checked, run};
use crate::memory::{Access, View};
use crate::numpy::{Numpy, dtype_of, numpy};

const OPERATION: &str = "exact_sum";

/// Adds up all elements of `x` of all ranks.
pub(crate) fn exact_sum<'py>(
    comm: &dyn Communicator,
    x: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let mut view = View::new();
    let prepared = numpy(py).and_then(|numpy| prepare(numpy, x, &mut view));
    let scalar = checked(py, comm, OPERATION, prepared)?;
    let bytes = view.bytes();
    let total = run(py, OPERATION, || {
        let mut sum = ExactSum::new();
        add_all(scalar, bytes, std::slice::from_mut(&mut sum));
        sum.allreduce(&comm)
    })?;
    Ok(PyFloat::new(py, total.value()).into_any())
}

/// Adds up each column of `x` of all ranks.
pub(crate) fn exact_sums<'py>(
    comm: &dyn Communicator,
    x: &Bound<'py, PyAny>,
    axis: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = x.py();
    let (mut view, mut recv) = (View::new(), View::new());
    let mut prepare = || {
        let numpy = numpy(py)?;
        first(axis)?;
        let scalar = prepare(numpy, x, &mut view)?;
        let [_, row @ ..] = view.shape() else {
            return Err(PyValueError::new_err(
                "x: it has no axis to add along; omit axis, or pass np.atleast_1d(x)",
            ));
        };
        let columns: usize = row.iter().map(|length| length.unsigned_abs()).product();
        let mut sums = Vec::new();
        sums.try_reserve_exact(columns).map_err(|_| {
            PyMemoryError::new_err(format!(
                "no memory for {columns} exact sums of {} bytes each; add fewer at once",
                size_of::<ExactSum>()
            ))
        })?;
        sums.resize(columns, ExactSum::new());
        let float64 = numpy.number(ScalarKind::F64).bind(py);
        let totals = numpy.empty(py, PyTuple::new(py, row)?, float64)?;
        fill(&mut recv, "out", &totals, Access::Write)?;
        Ok((scalar, sums, totals))
    };
    let prepared = prepare();
    let (scalar, mut sums, result) = checked(py, comm, OPERATION, prepared)?;
    let (bytes, out) = (view.bytes(), recv.bytes_mut());
    run(py, OPERATION, || {
        add_all(scalar, bytes, &mut sums);
        let mut totals = vec![0.0; sums.len()];
        comm_exact::exact_sums(&comm, &mut sums, &mut totals)?;
        out.copy_from_slice(cast_slice(&totals));
        Ok(())
    })?;
    Ok(result)
}

/// Checks that an axis is the first.
fn first(axis: &Bound<'_, PyAny>) -> PyResult<()> {
    match axis.extract::<isize>() {
        Ok(0) => Ok(()),
        Ok(other) => Err(PyValueError::new_err(format!(
            "axis: {other} is not supported; pass 0 for the sum of each column, or omit it for one sum of all elements"
        ))),
        Err(_) => Err(PyTypeError::new_err(format!(
            "axis: {} is no axis; pass 0 for the sum of each column, or omit it for one sum of all elements",
            described(axis)
        ))),
    }
}

fn prepare<'py>(
    numpy: &Numpy,
    x: &Bound<'py, PyAny>,
    view: &mut View<'py>,
) -> PyResult<ScalarKind> {
    if x.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err(format!(
            "x: a float64 cannot represent every int, and x is {}; pass float(x), or use allreduce, which adds integers exactly",
            described(x)
        )));
    }
    let x = array(numpy, "x", x, Access::Read)?;
    let scalar = reducible(numpy, "x", &dtype_of(&x)?)?;
    if matches!(scalar, ScalarKind::I64 | ScalarKind::U64) {
        return Err(PyTypeError::new_err(format!(
            "x: a float64 cannot represent every {scalar}; pass x.astype(np.float64), or use allreduce, which adds integers exactly"
        )));
    }
    fill(view, "x", &x, Access::Read)?;
    Ok(scalar)
}

/// Adds the numbers of each row to the sums of their columns.
fn add_all(scalar: ScalarKind, bytes: &[u8], sums: &mut [ExactSum]) {
    match scalar {
        ScalarKind::I8 => add::<i8>(bytes, sums),
        ScalarKind::I16 => add::<i16>(bytes, sums),
        ScalarKind::I32 => add::<i32>(bytes, sums),
        ScalarKind::U8 => add::<u8>(bytes, sums),
        ScalarKind::U16 => add::<u16>(bytes, sums),
        ScalarKind::U32 => add::<u32>(bytes, sums),
        ScalarKind::F32 => add::<f32>(bytes, sums),
        // Integers of 64 bits were rejected before.
        ScalarKind::F64 | ScalarKind::I64 | ScalarKind::U64 => add::<f64>(bytes, sums),
    }
}

fn add<T: Pod + Into<f64>>(bytes: &[u8], sums: &mut [ExactSum]) {
    // The memory of the array may be unaligned.
    let numbers: Cow<'_, [T]> =
        try_cast_slice(bytes).map_or_else(|_| Cow::Owned(pod_collect_to_vec(bytes)), Cow::Borrowed);
    if let [sum] = sums {
        return sum.extend(&numbers);
    }
    for row in numbers.chunks_exact(sums.len().max(1)) {
        for (sum, &number) in sums.iter_mut().zip(row) {
            sum.add(number);
        }
    }
}
