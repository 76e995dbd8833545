//! `exact_sum`: one number, whoever adds what.

use comm_exact::ExactSum;
use comm_factory::api::bytemuck::{Pod, pod_collect_to_vec, try_cast_slice};
use comm_factory::api::{Communicator, ScalarKind};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

use crate::argument::{array, fill, reducible};
use crate::call::{checked, run};
use crate::memory::{Access, View};
use crate::numpy::{dtype_of, numpy};

const OPERATION: &str = "exact_sum";

/// Adds up all elements of `x` of all ranks.
pub(crate) fn exact_sum(comm: &dyn Communicator, x: &Bound<'_, PyAny>) -> PyResult<f64> {
    let py = x.py();
    let mut view = View::new();
    let scalar = checked(py, comm, OPERATION, prepare(x, &mut view))?;
    let bytes = view.bytes();
    let total = run(py, OPERATION, || {
        let mut sum = ExactSum::new();
        match scalar {
            ScalarKind::I8 => add::<i8>(&mut sum, bytes),
            ScalarKind::I16 => add::<i16>(&mut sum, bytes),
            ScalarKind::I32 => add::<i32>(&mut sum, bytes),
            ScalarKind::U8 => add::<u8>(&mut sum, bytes),
            ScalarKind::U16 => add::<u16>(&mut sum, bytes),
            ScalarKind::U32 => add::<u32>(&mut sum, bytes),
            ScalarKind::F32 => add::<f32>(&mut sum, bytes),
            // Integers of 64 bits were refused.
            ScalarKind::F64 | ScalarKind::I64 | ScalarKind::U64 => add::<f64>(&mut sum, bytes),
        }
        sum.allreduce(&comm)
    })?;
    Ok(total.value())
}

fn prepare<'py>(x: &Bound<'py, PyAny>, view: &mut View<'py>) -> PyResult<ScalarKind> {
    let numpy = numpy(x.py())?;
    let x = array(numpy, "x", x, Access::Read)?;
    let scalar = reducible(numpy, "x", &dtype_of(&x)?)?;
    if matches!(scalar, ScalarKind::I64 | ScalarKind::U64) {
        return Err(PyTypeError::new_err(format!(
            "x: a float64 does not hold every {scalar}; pass x.astype(np.float64), or use allreduce, which adds integers exactly"
        )));
    }
    fill(view, "x", &x, Access::Read)?;
    Ok(scalar)
}

fn add<T: Pod + Into<f64>>(sum: &mut ExactSum, bytes: &[u8]) {
    match try_cast_slice::<u8, T>(bytes) {
        Ok(numbers) => sum.extend(numbers),
        // The memory of an array need not be aligned.
        Err(_) => sum.extend(&pod_collect_to_vec::<u8, T>(bytes)),
    }
}
